"""The memory that decoding takes."""

from __future__ import annotations

from multidraft.bench.report.load import Run
from multidraft.bench.report.table import (
    BATCH,
    DRAFT_LENGTH,
    METHOD,
    NUM_DRAFTS,
    PAIR,
    Column,
    Table,
)

_PEAK = Column("peak", "GB", measure="peak_memory_gb")
_OF_PROCESS = (
    "Peak memory is the most the process had used up to then. All methods of a run share a "
    "process, so it is an upper bound for each, and that of a pair includes the pairs before it."
)
_OF_GPU = (
    "Peak memory is the most GPU memory in use during any generation of the method. All that is "
    "loaded counts for all methods: both models, their caches, and a peer's own copy of the models "
    "once a method of the peer has run."
)


def memory(run: Run) -> Table:
    """Peak memory: by method on a GPU, whose peak can be told for each; else by pair and batch."""
    on_gpu = _on_gpu(run)
    columns = (PAIR, BATCH, *((METHOD, NUM_DRAFTS, DRAFT_LENGTH) if on_gpu else ()))
    peaks: dict[tuple[str | int, ...], int] = {}
    for record in run.records:
        cell = record.cell
        key: tuple[str | int, ...] = (cell.pair, cell.batch)
        if on_gpu:
            key += (cell.method, cell.num_drafts, cell.draft_length)
        peaks[key] = max(peaks.get(key, 0), record.peak_memory)
    names = [column.key for column in columns]
    return Table(
        "memory",
        "Peak memory" + (" of the GPU" if on_gpu else ""),
        (*columns, _PEAK),
        [{**dict(zip(names, key, strict=True)), "peak": peaks[key] / 1e9} for key in peaks],
        notes=[_OF_GPU if on_gpu else _OF_PROCESS],
    )


def _on_gpu(run: Run) -> bool:
    """Whether the models were on a CUDA device, which is where they go unless told otherwise."""
    asked = run.config.get("device")
    return bool(run.manifest.get("machine", {}).get("gpu")) and (
        asked is None or str(asked).startswith("cuda")
    )
