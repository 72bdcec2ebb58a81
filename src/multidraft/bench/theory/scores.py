"""``theory.jsonl`` in a run's folder: one line per text, only ever appended to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from multidraft.bench.folder import drop_cut_line, read_lines
from multidraft.bench.records import Cell, Record
from multidraft.errors import InvalidInput

_FILE = "theory.jsonl"
_LOCK = ".theory.lock"


@dataclass(frozen=True)
class Scores:
    """What theory says of the first draft token at places of one recorded text.

    Attributes:
        cell, example, repetition: the record the text is of.
        whole: every place of the text was asked for, not only those where its rounds begin.
        every: of these places, each so many-th.
        positions: the places, as tokens of the answer before them.
        acceptance: by kind (see `multidraft.bench.theory.acceptance`), probabilities for K = 1, 2,
            … [positions, K]
        error: why there are none, else "".
    """

    cell: Cell
    example: str
    repetition: int
    whole: bool
    every: int
    positions: list[int] = field(default_factory=list)
    acceptance: dict[str, list[list[float]]] = field(default_factory=dict)
    error: str = ""

    @classmethod
    def of(cls, record: Record, whole: bool, every: int, error: str = "") -> Scores:
        """Those of a record's text, yet without places."""
        return cls(record.cell, record.example, record.repetition, whole, every, error=error)

    @property
    def key(self) -> tuple[Cell, str, int]:
        """As `Record.key`."""
        return self.cell, self.example, self.repetition

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Scores:
        return cls(**{**values, "cell": Cell(**values["cell"])})


def read_scores(run: Path) -> Iterator[Scores]:
    """A run's scores, each text's once, a last line cut off left out.

    Raises:
        InvalidInput: a line is no such thing.
    """
    seen = set()
    for scores in read_lines(run / _FILE, Scores.from_dict):
        if scores.key not in seen:
            seen.add(scores.key)
            yield scores


class ScoresFile:
    """The file open for writing; made by `open_scores`. ``done``: the texts that are in it."""

    def __init__(self, run: Path, every: int):
        self._file = run / _FILE
        self.done: set[tuple[Cell, str, int]] = set()
        for scores in read_scores(run):
            if scores.every != every:
                raise InvalidInput(
                    f"{self._file} was begun with --every {scores.every}; go on with that, or "
                    "take the file away to begin anew."
                )
            self.done.add(scores.key)

    def append(self, scores: Scores) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(scores)) + "\n")
        self.done.add(scores.key)


@contextmanager
def open_scores(run: Path, every: int) -> Iterator[ScoresFile]:
    """Begin a run's scores, or go on with them. The run itself may be going on meanwhile.

    Raises:
        InvalidInput: they were begun with another ``every``, another process is writing them, or
            the folder cannot be written to.
    """
    lock = FileLock(run / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InvalidInput(f"Another process computes the theory of {run}; wait for it.") from None
    except OSError as error:
        raise InvalidInput(f"Cannot write to {run}: {error.strerror}.") from None
    try:
        drop_cut_line(run / _FILE)
        yield ScoresFile(run, every)
    finally:
        lock.release()
