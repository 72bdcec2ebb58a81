"""The tables of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from multidraft.bench.methods import PLAIN
from multidraft.bench.report import published
from multidraft.bench.report.ablation import AXES, Ablation
from multidraft.bench.report.comparisons import LEVEL, SPEED, Comparison
from multidraft.bench.report.group import Group, Row
from multidraft.bench.report.latency import HOW_COUNTED, latency
from multidraft.bench.report.measures import MEAN, SPEED_UP, Measures
from multidraft.bench.report.table import (
    BASELINE,
    BATCH,
    DATASET,
    DRAFT_LENGTH,
    METHOD,
    NUM_DRAFTS,
    PAIR,
    TEMPERATURE,
    Column,
    Estimate,
    Table,
    Value,
)
from multidraft.engine.stats import PHASES

_SHAPE = (METHOD, NUM_DRAFTS, DRAFT_LENGTH)
_MAIN = (
    Column("block_efficiency", "block efficiency"),
    Column("acceptance_rate", "acceptance rate", ".3f"),
    Column("tokens_per_second", "tokens/s"),
    Column(SPEED_UP, "speed-up"),
)


def summary(measures: Measures, number: int) -> Table:
    """The main figures: means over data sets, or those of the only one."""
    group, dataset = measures.group, measures.main
    over = f"mean over {len(group.samples)} data sets" if dataset == MEAN else dataset
    return Table(
        f"summary-{number}",
        f"{group}: {over}, with 95% intervals",
        (*_SHAPE, *_MAIN),
        [
            {**_shape(row), **_figures(measures, dataset, row, _MAIN)}
            for row in _present(measures, dataset)
        ],
        {**group.keys, "dataset": dataset},
        _sample_notes(measures),
    )


def by_dataset(measures: Measures, number: int) -> Table:
    """The main figures of each data set."""
    group = measures.group
    return Table(
        f"datasets-{number}",
        f"{group}: each data set, with 95% intervals",
        (DATASET, *_SHAPE, *_MAIN),
        [
            {"dataset": dataset, **_shape(row), **_figures(measures, dataset, row, _MAIN)}
            for dataset in measures.by_dataset
            if dataset != MEAN
            for row in _present(measures, dataset)
        ],
        group.keys,
    )


def split(measures: Measures, number: int) -> Table:
    """Where the time goes."""
    group = measures.group
    columns = (
        Column("milliseconds_per_token", "ms/token", ".1f"),
        *(Column(f"{phase}_share", phase, ".0%", brief=True) for phase in PHASES),
    )
    rows: list[Mapping[str, Value]] = []
    for dataset in measures.by_dataset:
        for row in _present(measures, dataset):
            shares = _figures(measures, dataset, row, columns[1:])
            seconds = measures.estimate(dataset, "seconds_per_token", row)
            time = Estimate(1e3 * seconds.value, 1e3 * seconds.low, 1e3 * seconds.high)
            rows.append(
                {
                    "dataset": dataset,
                    **_shape(row),
                    **shares,
                    "milliseconds_per_token": time,
                }
            )
    return Table(
        f"time-{number}",
        f"{group}: wall-clock time per token and its share by phase",
        (DATASET, *_SHAPE, *columns),
        rows,
        group.keys,
        ["Prefill counts as target. Peers do not tell their phases apart."],
    )


def comparison(comparisons: Sequence[Comparison], number: int) -> Table:
    """One group's methods against the baselines."""
    group = comparisons[0].measures.group
    merged: dict[tuple[str, Row, Row], dict[str, Value]] = {}
    for c in comparisons:
        row = merged.setdefault(
            (c.dataset, c.row, c.base),
            {
                "dataset": c.dataset,
                **_shape(c.row),
                "baseline": str(c.base),
                **dict.fromkeys(("efficiency", "efficiency_raw", "efficiency_p"), math.nan),
                **dict.fromkeys(("speed", "speed_raw", "speed_p"), math.nan),
            },
        )
        name = "speed" if c.figure == SPEED else "efficiency"
        row[name] = replace(c.effect, marked=c.established)
        row[f"{name}_raw"], row[f"{name}_p"] = c.p, c.corrected
    return Table(
        f"comparisons-{number}",
        f"{group}: against the baselines, paired over prompts",
        (
            DATASET,
            *_SHAPE,
            BASELINE,
            Column(
                "efficiency", "Δ block efficiency", "+.2f", measure="block_efficiency_difference"
            ),
            Column("efficiency_raw", "", hidden=True, measure="block_efficiency_p"),
            Column("efficiency_p", "p (corrected)", "p", measure="block_efficiency_p_corrected"),
            Column("speed", "speed ratio", measure="speed_ratio"),
            Column("speed_raw", "", hidden=True, measure="speed_p"),
            Column("speed_p", "p (corrected)", "p", measure="speed_p_corrected"),
        ),
        list(merged.values()),
        group.keys,
        [
            "Δ block efficiency: the method's minus the baseline's; speed: the method's tokens/s "
            f"over the baseline's. Bold: established (p < {LEVEL:g} after correction). The "
            "intervals are not corrected."
        ],
    )


def ablation(found: Ablation, number: int) -> list[Table]:
    """Block efficiency and speed-up along an axis."""
    symbol = AXES[found.axis]
    fixed: dict[str, Value] = {"pair": found.pair, "batch": found.batch, **found.fixed}
    fixed.pop("num_drafts", None)  # each row has its own: methods of one draft have 1
    return [
        _along(found, figure, f"{title} along {symbol}; {found.where}", number, fixed)
        for figure, title in (("block_efficiency", "Block efficiency"), (SPEED_UP, "Speed-up"))
    ]


def _along(
    found: Ablation, figure: str, title: str, number: int, fixed: Mapping[str, Value]
) -> Table:
    symbol = AXES[found.axis]
    columns = [
        Column(
            f"{found.axis}={value:g}",
            f"{symbol} = {value:g}",
            measure=figure,
            keys={found.axis: value if found.axis == "temperature" else int(value)},
        )
        for value in found.values
    ]
    rows: list[Mapping[str, Value]] = []
    notes = []
    peaks = figure == SPEED_UP and found.axis != "temperature"
    for curve in found.curves:
        peak = curve.peak() if peaks else None
        row: dict[str, Value] = {"method": curve.method, **dict.fromkeys(_keys(columns), math.nan)}
        if found.axis != "num_drafts":
            row["num_drafts"] = curve.points[0].num_drafts
        for i, point in enumerate(curve.points):
            estimate = point.estimate(figure)
            marked = peak is not None and peak[0] == i
            row[f"{found.axis}={point.at(found.axis):g}"] = replace(estimate, marked=marked)
        rows.append(row)
        if peak is not None:
            at = curve.points[peak[0]].at(found.axis)
            share = "one prompt" if math.isnan(peak[1]) else f"{peak[1]:.0%}"
            notes.append(f"{curve.method} at {symbol} = {at:g} ({share})")
    if notes:
        notes = [
            "Bold: the largest speed-up of each method, in brackets the share of resamples in "
            f"which it is the largest: {', '.join(notes)}."
        ]
    labels = (METHOD,) if found.axis == "num_drafts" else (METHOD, NUM_DRAFTS)
    name = f"ablation-{number}-{figure.replace('_', '-')}"
    return Table(name, title, (*labels, *columns), rows, fixed, notes)


def waiting(groups: Sequence[Group]) -> Table:
    """Latency of every method, all data sets together."""
    columns = (
        Column("first_p50", "first token p50", ".0f", measure="first_token_p50_ms"),
        Column("first_p95", "p95", ".0f", measure="first_token_p95_ms"),
        Column("token_p50", "between tokens p50", ".1f", measure="inter_token_p50_ms"),
        Column("token_p95", "p95", ".1f", measure="inter_token_p95_ms"),
        Column("round_p50", "between rounds p50", ".1f", measure="inter_round_p50_ms"),
        Column("round_p95", "p95", ".1f", measure="inter_round_p95_ms"),
    )
    rows: list[Mapping[str, Value]] = []
    for group in groups:
        for row in group.rows:
            records = [r for s in group.samples.values() for r in s.records.get(row, [])]
            if records:
                times = latency(records)
                figures = {c.key: 1e3 * getattr(times, c.key) for c in columns}
                rows.append({**group.keys, **_shape(row), **figures})
    return Table(
        "latency",
        "Latency in milliseconds, all data sets together",
        (*_varying((PAIR, BATCH, TEMPERATURE), rows), *_SHAPE, *columns),
        rows,
        _constant((PAIR, BATCH, TEMPERATURE), rows),
        [HOW_COUNTED],
    )


def beside_published(everything: Sequence[Measures]) -> Table | None:
    """The paper's figures and the run's; None where the run has none of its methods."""
    rows: list[Mapping[str, Value]] = []
    for measures, by_method in published.nearest(everything):
        dataset, group = measures.main, measures.group
        standard = by_method.get(published.STANDARD)
        paper_standard = published.FIGURES[0]
        for figure in published.FIGURES:
            row = by_method.get(figure.method)
            values: dict[str, Value] = {
                **group.keys,
                "dataset": dataset,
                "method": figure.method,
                "name": figure.name,
                "num_drafts": row.num_drafts if row else 0,
                "draft_length": row.draft_length if row else 0,
            }
            for name in ("block_efficiency", SPEED_UP):
                paper = getattr(figure, name)
                values[f"paper_{name}"] = paper
                values[f"paper_{name}_over"] = paper / getattr(paper_standard, name)
                values[name] = values[f"{name}_over"] = math.nan
                if row is not None:
                    values[name] = measures.estimate(dataset, name, row)
                if row is not None and standard is not None:
                    measured = measures.by_dataset[dataset][name]
                    i, j = group.rows.index(row), group.rows.index(standard)
                    values[f"{name}_over"] = measured.ratio(i, j)
            rows.append(values)
    if not rows:
        return None
    figures = [
        column
        for name, title in (("block_efficiency", "block efficiency"), (SPEED_UP, "speed-up"))
        for column in (
            Column(
                f"paper_{name}",
                f"{title} (paper)",
                measure=f"published_{name}",
                keys=published.SETTING,
            ),
            Column(name, f"{title} (run)"),
            Column(
                f"paper_{name}_over",
                "over standard (paper)",
                measure=f"published_{name}_over_standard",
                keys=published.SETTING,
            ),
            Column(f"{name}_over", "over standard (run)", measure=f"{name}_over_standard"),
        )
    ]
    setting = (PAIR, BATCH, TEMPERATURE)
    constant = _constant(setting, rows)
    where = ", ".join(
        f"{c.title} = {c.text(constant[c.key])}" for c in setting if c.key in constant
    )
    return Table(
        "published",
        f"{published.CAPTION} ({where})" if where else published.CAPTION,
        (
            *_varying(setting, rows),
            Column("name", "method", label=True),
            replace(METHOD, hidden=True),
            replace(DATASET, hidden=True),
            NUM_DRAFTS,
            DRAFT_LENGTH,
            *figures,
        ),
        rows,
        constant,
        published.NOTES,
    )


def _shape(row: Row) -> dict[str, Value]:
    return {
        "method": row.method,
        "num_drafts": row.num_drafts,
        "draft_length": row.draft_length,
    }


def _present(measures: Measures, dataset: str) -> list[Row]:
    speeds = measures.by_dataset[dataset]["tokens_per_second"].values
    return [r for r, v in zip(measures.group.rows, speeds, strict=True) if not math.isnan(v)]


def _figures(
    measures: Measures, dataset: str, row: Row, columns: Iterable[Column]
) -> dict[str, Value]:
    return {c.key: measures.estimate(dataset, c.key, row) for c in columns}


def _sample_notes(measures: Measures) -> list[str]:
    samples = measures.group.samples.items()
    counts = ", ".join(f"{name} {sample.prompts}" for name, sample in samples)
    notes = [f"Prompts that every method has: {counts}."]
    if all(row.method != PLAIN for row in measures.group.rows):
        notes.append(f"There is no speed-up without plain decoding ({PLAIN}).")
    return notes


def _keys(columns: Sequence[Column]) -> list[str]:
    return [column.key for column in columns]


def _constant(columns: Sequence[Column], rows: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """Labels that are the same in all rows, so no column need show them."""
    return {
        c.key: rows[0][c.key] for c in columns if rows and len({row[c.key] for row in rows}) == 1
    }


def _varying(columns: Sequence[Column], rows: Sequence[Mapping[str, Value]]) -> list[Column]:
    constant = _constant(columns, rows)
    return [column for column in columns if column.key not in constant]
