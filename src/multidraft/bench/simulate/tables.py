"""What was predicted, as tables and pictures like a report's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from multidraft.bench.report import plots, tables
from multidraft.bench.report.ablation import find_ablations
from multidraft.bench.report.document import Document, Section
from multidraft.bench.report.files import PREDICTION, write_files
from multidraft.bench.report.group import Row, make_groups
from multidraft.bench.report.measures import MEAN, SPEED_UP, Measures
from multidraft.bench.report.render import render
from multidraft.bench.report.table import (
    DATASET,
    DRAFT_LENGTH,
    METHOD,
    NUM_DRAFTS,
    Column,
    Estimate,
    Table,
    Value,
)
from multidraft.bench.simulate.predict import Prediction
from multidraft.engine.stats import PHASES
from multidraft.errors import InvalidInput

_COLUMNS = (
    Column("block_efficiency", "block efficiency"),
    Column(SPEED_UP, "speed-up"),
    *(Column(f"{phase}_share", phase, ".0%", brief=True) for phase in PHASES),
)


class Predicted:
    """The tables of a prediction.

    Args:
        prediction: see `predict`.
        machine: whose costs they are, in words.

    Raises:
        InvalidInput: no prompt was decoded by every method.
    """

    def __init__(self, prediction: Prediction, machine: str):
        self.machine = machine
        self.notes = prediction.notes
        self.name = prediction.run.name
        self.measures = [m for m in map(Measures, make_groups(prediction.run)) if m.by_dataset]
        if not self.measures:
            raise InvalidInput(f"{self.name}: no prompt was decoded by every method.")
        self.along_length = [a for a in find_ablations(self.measures) if a.axis == "draft_length"]

    @property
    def main(self) -> list[Table]:
        """One for each pair and temperature: the mean over data sets, or the only one."""
        return [self._table(m, [m.main], number) for number, m in enumerate(self.measures, 1)]

    @property
    def by_dataset(self) -> list[Table]:
        """The same of each data set."""
        return [
            self._table(m, list(m.by_dataset), number)
            for number, m in enumerate(self.measures, 1)
            if m.main == MEAN
        ]

    @property
    def curves(self) -> list[Table]:
        """Block efficiency and speed-up along L, the peak of the latter marked."""
        return [
            table
            for number, a in enumerate(self.along_length, 1)
            for table in tables.ablation(a, number)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: a row for each method, K, L and data set, and peaks along L."""
        return {
            "run": self.name,
            "machine": self.machine,
            "notes": self.notes,
            "rows": [_row_dict(t, row) for t in (*self.main, *self.by_dataset) for row in t.rows],
            "peaks": [
                {
                    "pair": found.pair,
                    "temperature": found.fixed["temperature"],
                    "method": curve.method,
                    "num_drafts": curve.points[0].num_drafts,
                    "draft_length": curve.points[peak[0]].draft_length,
                    "share_of_resamples": None if math.isnan(peak[1]) else peak[1],
                }
                for found in self.along_length
                for curve in found.curves
                if (peak := curve.peak()) is not None
            ],
        }

    def _table(self, measures: Measures, datasets: Sequence[str], number: int) -> Table:
        group = measures.group
        rows: list[Mapping[str, Value]] = [
            {
                "dataset": dataset,
                "method": row.method,
                "num_drafts": row.num_drafts,
                "draft_length": row.draft_length,
                **{c.key: measures.estimate(dataset, c.key, row) for c in _COLUMNS},
            }
            for dataset in datasets
            for row in _present(measures, dataset)
        ]
        single = datasets == [measures.main]
        of = f"mean over {len(group.samples)} data sets" if measures.main == MEAN else measures.main
        return Table(
            f"{'predicted' if single else 'predicted-datasets'}-{number}",
            f"Predicted for {self.machine}; {group}: {of if single else 'each data set'}",
            (*(() if single else (DATASET,)), METHOD, NUM_DRAFTS, DRAFT_LENGTH, *_COLUMNS),
            rows,
            {**group.keys, **({"dataset": measures.main} if single else {})},
        )

    def write(self, out: Path) -> list[str]:
        """All of it as HTML, Markdown, LaTeX and CSV; see `write_files`."""
        section = Section("Predicted", list(self.notes), parts=[*self.main, *self.by_dataset])
        sections = [section]
        if self.along_length:
            palette = plots.Palette(plots.methods_of(self.measures))
            section = Section("Draft length", ["A ring is a method's largest speed-up."])
            for number, found in enumerate(self.along_length, 1):
                section.parts += [
                    plots.curves(found, palette, number),
                    *tables.ablation(found, number),
                ]
            sections.append(section)
        subtitle = f"Acceptance as recorded, times from the costs of {self.machine}"
        document = Document(f"Predicted: {self.name}", subtitle, sections, "predicted")
        return write_files(out, render(document), PREDICTION)


def _present(measures: Measures, dataset: str) -> list[Row]:
    return [
        row
        for row in measures.group.rows
        if not math.isnan(measures.estimate(dataset, SPEED_UP, row).value)
    ]


def _row_dict(table: Table, row: Mapping[str, Value]) -> dict[str, Any]:
    values: dict[str, Any] = {**table.keys, **row}
    for key, value in values.items():
        if isinstance(value, Estimate):
            numbers = {"value": value.value, "low": value.low, "high": value.high}
            values[key] = {name: None if math.isnan(n) else n for name, n in numbers.items()}
    return values
