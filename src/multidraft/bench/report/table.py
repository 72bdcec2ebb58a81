"""A table before it is written in any format."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

NONE = "–"


@dataclass(frozen=True)
class Estimate:
    """A number and its interval, NaN where there is none; ``marked`` ones stand out."""

    value: float
    low: float = math.nan
    high: float = math.nan
    marked: bool = False


Value = str | int | float | Estimate


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        key: its name in rows and, unless ``measure`` is given, in the CSV file.
        title: its head.
        form: format of its numbers, such as ".2f".
        label: it says what a row is about; the others hold figures.
        hidden: only in the CSV file.
        brief: intervals only in the CSV file.
        measure: name of the figure in the CSV file.
        keys: labels that all its figures have.
    """

    key: str
    title: str
    form: str = ".2f"
    label: bool = False
    hidden: bool = False
    brief: bool = False
    measure: str = ""
    keys: Mapping[str, Value] = field(default_factory=dict)

    def text(self, value: Value) -> str:
        """The value without its interval."""
        if isinstance(value, str):
            return value
        if self.label and value == 0:
            return NONE if self.key in ("num_drafts", "draft_length") else "0"
        if isinstance(value, int):
            return str(value)
        number = value.value if isinstance(value, Estimate) else value
        return NONE if math.isnan(number) else self._format(number)

    def interval(self, value: Value) -> str:
        """Its interval, "" where there is none or it is a point."""
        if self.brief or not isinstance(value, Estimate) or math.isnan(value.low):
            return ""
        if math.isclose(value.low, value.high):
            return ""
        return f"[{self._format(value.low)}, {self._format(value.high)}]"

    def _format(self, number: float) -> str:
        if self.form == "p":
            return "< 0.001" if number < 0.001 else f"{number:.3f}"
        if self.form == "label":
            return f"{number:g}"
        return format(number, self.form)


@dataclass(frozen=True)
class Entry:
    """One place of a table, as text."""

    text: str
    interval: str
    label: bool
    marked: bool


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: of its file, and in the CSV file.
        title: its caption.
        columns: those that label its rows first.
        rows: values by the columns' keys.
        keys: labels that all its rows have and that no column shows.
        notes: sentences below it.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Value]]
    keys: Mapping[str, Value] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def shown(self) -> list[Column]:
        return [column for column in self.columns if not column.hidden]

    @property
    def entries(self) -> list[list[Entry]]:
        """Its rows as text, without hidden columns."""
        return [
            [
                Entry(
                    column.text(row[column.key]),
                    column.interval(row[column.key]),
                    column.label,
                    isinstance(value := row[column.key], Estimate) and value.marked,
                )
                for column in self.shown
            ]
            for row in self.rows
        ]

    def numbers(self) -> Iterator[tuple[dict[str, Value], str, Estimate]]:
        """Every figure: its labels, its name, and the number with its interval."""
        for row in self.rows:
            labels = {c.key: row[c.key] for c in self.columns if c.label}
            for column in self.columns:
                value = row[column.key]
                if column.label or isinstance(value, str):
                    continue
                number = value if isinstance(value, Estimate) else Estimate(float(value))
                if not math.isnan(number.value):
                    keys = {**self.keys, **labels, **column.keys}
                    yield keys, column.measure or column.key, number


#: Columns that label rows.
METHOD = Column("method", "method", label=True)
NUM_DRAFTS = Column("num_drafts", "K", "label", label=True)
DRAFT_LENGTH = Column("draft_length", "L", "label", label=True)
DATASET = Column("dataset", "data set", label=True)
PAIR = Column("pair", "pair", label=True)
TEMPERATURE = Column("temperature", "T", "label", label=True)
BATCH = Column("batch", "batch", "label", label=True)
BASELINE = Column("baseline", "against", label=True)
