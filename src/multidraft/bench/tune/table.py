"""What tuning found, as a table for a terminal and as plain values."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from rich.table import Column, Table

from multidraft.bench.report.group import Row
from multidraft.bench.report.table import NONE, Estimate
from multidraft.bench.tune.run import Tuning
from multidraft.bench.tune.settings import AUTO, PLAIN


def shown_rows(found: Tuning) -> list[Row]:
    """Plain decoding, auto, what was chosen to be measured, and the best length of each kind that
    was not; the last two by their predicted speed."""
    speeds = {row: each.tokens_per_second for row, each in found.predicted.items()}
    best: dict[str, Row] = {}
    for row in sorted(speeds, key=lambda row: -speeds[row]):
        best.setdefault(row.method, row)
    measured = {row.method for row in found.chosen}
    others = [row for row in best.values() if row != PLAIN and row.method not in measured]
    return [PLAIN, AUTO, *found.chosen, *others]


def as_table(found: Tuning) -> Table:
    """In 80 columns; the fastest setting has a star. tok/call is the block efficiency."""
    right: dict[str, Any] = {"justify": "right", "no_wrap": True}
    table = Table(
        Column("setting", no_wrap=True),
        Column("K", **right),
        Column("L", **right),
        Column("predicted", **right),
        Column("tok/s", **right),
        Column("", no_wrap=True),
        Column("speed-up", **right),
        Column("", no_wrap=True),
        Column("tok/call", **right),
        box=None,
        pad_edge=False,
        collapse_padding=True,
    )
    fastest = _fastest(found)
    for row in shown_rows(found):
        values = _figures(found, row)
        speed, gain = values["tokens_per_second"], values["speed_up"]
        table.add_row(
            f"{row.method} *" if row == fastest else row.method,
            str(row.num_drafts or NONE),
            str(row.draft_length or NONE),
            _number(values["predicted"].value, ".1f"),
            _number(speed.value, ".1f"),
            _range(speed, ".1f"),
            _number(gain.value, ".2f") + ("×" if gain.value == gain.value else ""),
            _range(gain, ".2f"),
            _number(values["block_efficiency"].value, ".2f"),
            style="bold" if row == fastest else "",
        )
    return table


def notes(found: Tuning) -> list[str]:
    """What is to be known of the table."""
    said = []
    if found.figures is None:
        said.append("No prompt was measured; what is predicted is a guess.")
    else:
        intervals = "95% intervals, for all settings together."
        if found.figures.prompts < found.figures.least:
            intervals = "Too few for intervals."
        said.append(
            f"Measured on {found.figures.prompts} prompts, each by every setting in turn. "
            f"{intervals} * the fastest."
        )
    if found.failed:
        first = next(iter(found.failed.values()))
        said.append(f"Prompts left out as they could not be decoded: {len(found.failed)} ({first})")
    return said


def to_dict(found: Tuning) -> dict[str, Any]:
    """Plain values for JSON: every setting that was predicted or measured."""
    rows = [*shown_rows(found), *found.predicted]
    return {
        "prompts": found.figures.prompts if found.figures else 0,
        "left_out": list(found.failed.values()),
        "settings": [
            {
                **asdict(row),
                **{name: _plain(value) for name, value in _figures(found, row).items()},
            }
            for row in dict.fromkeys(rows)
        ],
    }


def _figures(found: Tuning, row: Row) -> dict[str, Estimate]:
    figures, unknown = found.figures, Estimate(math.nan)
    predicted = found.predicted.get(row)
    measured = figures is not None and row in figures.rows
    return {
        "predicted": Estimate(predicted.tokens_per_second) if predicted else unknown,
        "tokens_per_second": figures.speed(row) if figures and measured else unknown,
        "speed_up": figures.ratio(row, PLAIN) if figures and measured else unknown,
        "block_efficiency": (
            Estimate(figures.block_efficiency(row)) if figures and measured else unknown
        ),
    }


def _fastest(found: Tuning) -> Row | None:
    figures = found.figures
    if figures is None:
        return None
    return max(figures.rows, key=lambda row: figures.speed(row).value)


def _number(value: float, form: str) -> str:
    return NONE if math.isnan(value) else format(value, form)


def _range(value: Estimate, form: str) -> str:
    if math.isnan(value.low) or value.low == value.high:
        return ""
    return f"{value.low:{form}}–{value.high:{form}}"


def _plain(value: Estimate) -> dict[str, float | None]:
    numbers = {"value": value.value, "low": value.low, "high": value.high}
    return {name: None if math.isnan(n) else n for name, n in numbers.items()}
