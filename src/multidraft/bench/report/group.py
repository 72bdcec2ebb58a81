"""Generations that can be set side by side: one pair, temperature and batch size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multidraft.bench.records import Cell, Record
from multidraft.bench.report.load import Run
from multidraft.bench.report.sums import SUMS, sums_of

Array = npt.NDArray[np.float64]
_Item = tuple[str, int]  # a prompt and its repetition
_LEAST_SHARE = 0.5  # a method with fewer of the prompts would take the others' away from them


@dataclass(frozen=True)
class Row:
    """A method with its K and L; 0 where it has none."""

    method: str
    num_drafts: int
    draft_length: int

    def __str__(self) -> str:
        shape = [
            f"{name}={value}"
            for name, value in (("K", self.num_drafts), ("L", self.draft_length))
            if value
        ]
        return f"{self.method} ({', '.join(shape)})" if shape else self.method


@dataclass(frozen=True)
class Sample:
    """One data set's prompts, the same ones for all rows of a group.

    Attributes:
        sums: by name (see `multidraft.bench.report.sums`), per unit and row [n, rows]; NaN in rows
            that are absent. A unit is a prompt with all its repetitions or, in batches, the prompts
            decoded together, whose times are not independent.
        prompts: number of prompts.
        left_out: prompt and repetition pairs that some row lacks.
        absent: rows that have less than half of the prompts, and do not take part.
        records: those that count, by row.
    """

    sums: dict[str, Array]
    prompts: int
    left_out: int
    absent: tuple[Row, ...]
    records: dict[Row, list[Record]]

    @property
    def units(self) -> int:
        return len(self.sums["tokens"])


@dataclass(frozen=True)
class Group:
    """One pair, temperature and batch size.

    Attributes:
        rows: its methods.
        samples: by data set.
    """

    pair: str
    temperature: float
    batch: int
    rows: tuple[Row, ...]
    samples: dict[str, Sample]

    @property
    def keys(self) -> dict[str, str | int | float]:
        return {"pair": self.pair, "temperature": self.temperature, "batch": self.batch}

    def __str__(self) -> str:
        batch = f", batch {self.batch}" if self.batch > 1 else ""
        return f"{self.pair}, T = {self.temperature:g}{batch}"


def make_groups(run: Run) -> list[Group]:
    """The groups of a run, in the order of its configuration."""
    pairs = run.in_order("pairs", (record.cell.pair for record in run.records))
    methods = run.in_order("methods", (record.cell.method for record in run.records))
    datasets = run.in_order("data", (record.cell.dataset for record in run.records))
    cells: dict[Cell, list[Record]] = defaultdict(list)
    for record in run.records:
        cells[record.cell].append(record)
    settings = {(cell.pair, cell.temperature, cell.batch) for cell in cells}
    groups = []
    for pair, temperature, batch in sorted(settings, key=lambda s: (pairs.index(s[0]), *s[1:])):
        found: dict[str, dict[Row, list[Record]]] = defaultdict(dict)
        for cell, records in cells.items():
            if (cell.pair, cell.temperature, cell.batch) == (pair, temperature, batch):
                row = Row(cell.method, cell.num_drafts, cell.draft_length)
                found[cell.dataset][row] = records
        rows = sorted(
            {row for by_row in found.values() for row in by_row},
            key=lambda row: (methods.index(row.method), row.num_drafts, row.draft_length),
        )
        samples = {
            dataset: _sample(rows, found[dataset], batch, run.max_tokens)
            for dataset in datasets
            if dataset in found
        }
        groups.append(Group(pair, temperature, batch, tuple(rows), samples))
    return groups


def _sample(
    rows: Sequence[Row], found: dict[Row, list[Record]], batch: int, max_tokens: int
) -> Sample:
    items: dict[Row, dict[_Item, Record]] = {
        row: {(r.example, r.repetition): r for r in found.get(row, [])} for row in rows
    }
    most = max(map(len, items.values()))
    taking_part = [row for row in rows if len(items[row]) >= _LEAST_SHARE * most]
    seen = set().union(*(items[row] for row in taking_part))
    common = sorted(seen.intersection(*(items[row] for row in taking_part)))
    units = _units(common, items[taking_part[0]], batch)
    count = len(set(units.values()))
    sums = {name: np.full((count, len(rows)), np.nan) for name in SUMS}
    for column, row in enumerate(rows):
        if row in taking_part:
            for name in SUMS:
                sums[name][:, column] = 0.0
            for item in common:
                for name, value in sums_of(items[row][item], max_tokens).items():
                    sums[name][units[item], column] += value
    return Sample(
        sums,
        len({example for example, _ in common}),
        len(seen) - len(common),
        tuple(row for row in rows if row not in taking_part),
        {row: [items[row][item] for item in common] for row in taking_part},
    )


def _units(common: Sequence[_Item], records: dict[_Item, Record], batch: int) -> dict[_Item, int]:
    """Number of each item's unit; the prompts of a batch are the same in every repetition."""
    first: dict[str, str | int] = {}
    for example, repetition in common:
        block = records[example, repetition].block
        first.setdefault(example, example if batch == 1 else block)
    numbers = {unit: number for number, unit in enumerate(dict.fromkeys(first.values()))}
    return {item: numbers[first[item[0]]] for item in common}
