"""Run folders made up for tests: what each method does is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from multidraft.bench.records import Cell, Record

MAX_TOKENS = 64


def write_run(path: Path, records: Iterable[Record], methods: Sequence[str] = ()) -> Path:
    """A run folder with these records."""
    records = list(records)
    path.mkdir(parents=True, exist_ok=True)
    manifest = {
        "config": {
            "pairs": [{"name": "pair", "target": "big", "draft": "small"}],
            "data": list(dict.fromkeys(r.cell.dataset for r in records)),
            "methods": list(methods) or list(dict.fromkeys(r.cell.method for r in records)),
            "max_tokens": MAX_TOKENS,
            "repetitions": 1,
            "seed": 0,
        },
        "machine": {"cpu": "a processor", "cores": 8, "memory": 64 * 10**9, "gpu": ""},
        "versions": {"multidraft": "0"},
        "sessions": [{"started": "2026-01-01T00:00:00+00:00", "revision": ""}],
    }
    (path / "manifest.json").write_text(json.dumps(manifest))
    lines = (json.dumps(record.to_dict()) + "\n" for record in records)
    (path / "records.jsonl").write_text("".join(lines))
    return path


def generation(
    cell: Cell,
    example: int,
    acceptance: float,
    costs: tuple[float, float, float, float],
    rng: np.random.Generator,
    repetition: int = 0,
) -> Record:
    """One answer: draft tokens are accepted with a probability, phases take so long a round.

    Args:
        costs: seconds a round of draft, target, verify and other.
    """
    length, rounds, emitted = cell.draft_length, [], 0
    while emitted < MAX_TOKENS:
        depth = min(length, MAX_TOKENS - emitted - 1)
        accepted = 0
        while accepted < depth and rng.random() < acceptance:
            accepted += 1
        rounds.append([accepted, depth, accepted + 1])
        emitted += accepted + 1
    noise = rng.lognormal(0.0, 0.03, len(rounds))
    seconds = {
        phase: float(cost * noise.sum())
        for phase, cost in zip(("draft", "target", "verify", "other"), costs, strict=True)
    }
    gaps = (sum(costs) * noise[1:]).tolist()
    seconds["target"] += 0.1
    return Record(
        cell,
        f"{cell.dataset}/{example}",
        repetition,
        0,
        prompt_tokens=20,
        tokens=emitted,
        rounds=rounds,
        seconds=seconds,
        first_token=0.1 + float(sum(costs) * noise[0]),
        gaps=gaps,
        peak_memory=2 * 10**9,
        finish_reason="length",
        block=example // cell.batch,
    )


def peer(record: Record) -> Record:
    """The same generation as a peer would report it."""
    total = sum(record.seconds.values())
    record.seconds.update(draft=0.0, target=0.0, verify=0.0, other=total)
    record.rounds.clear()
    return record


def run_records(
    methods: dict[str, float],
    datasets: Sequence[str] = ("humaneval",),
    prompts: int = 20,
    lengths: Sequence[int] = (4,),
    drafts: Sequence[int] = (3,),
    temperatures: Sequence[float] = (1.0,),
    seed: int = 0,
) -> list[Record]:
    """Records of a grid; ``methods`` gives the acceptance of a draft token by method.

    Those named ``ar`` draft nothing; ``token`` and ``greedy-block`` use one draft. A prompt is
    as easy for one method as for the others.
    """
    rng = np.random.default_rng(seed)
    records = []
    for dataset in datasets:
        ease = np.clip(rng.normal(0.0, 0.12, prompts), -0.25, 0.25)
        for temperature in temperatures:
            for method, acceptance in methods.items():
                shapes = [(k, n) for n in lengths for k in drafts]
                if method in ("token", "greedy-block"):
                    shapes = [(1, n) for n in lengths]
                if method in ("ar", "transformers:plain"):
                    shapes = [(0, 0)]
                for k, n in shapes:
                    cell = Cell("pair", dataset, method, k, n, temperature)
                    costs = (0.006 * n, 0.04 + 0.001 * k * n, 0.001 * max(k, n > 0), 0.001)
                    extra = 0.03 * (k - 3) if k > 1 else 0.0
                    for example in range(prompts):
                        chance = min(0.97, acceptance + ease[example] + extra)
                        record = generation(cell, example, chance, costs, rng)
                        records.append(peer(record) if ":" in method else record)
    return records
