"""Each method against the baselines: by how much, and is that established?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multidraft.bench.methods import PLAIN
from multidraft.bench.report.bootstrap import SEED
from multidraft.bench.report.group import Group, Row
from multidraft.bench.report.measures import MEAN, Measures
from multidraft.bench.report.significance import inheritance, sign_flip_test
from multidraft.bench.report.table import Estimate
from multidraft.errors import InvalidInput

Array = npt.NDArray[np.float64]

BASELINES = (PLAIN, "token", "spectr", "greedy-block")
LEVEL = 0.05
_LEAST_FLIPS = 10_000
_FLIPS_A_TEST = 200  # else no p-value could be small enough to survive the correction
_MOST_FLIPS = 500_000

BLOCK_EFFICIENCY, SPEED = "block efficiency", "speed"


@dataclass
class Comparison:
    """One figure of one method against one baseline.

    Attributes:
        measures: of the group they are in.
        dataset: or `MEAN`.
        row, base: method and baseline.
        figure: `BLOCK_EFFICIENCY` or `SPEED`.
        effect: the difference in block efficiency, or the ratio of speeds.
        p: of the paired test.
        corrected: p after correction over the report; see `inheritance`.
        same_sign: the mean difference per prompt, which is tested, points where the effect does.
    """

    measures: Measures
    dataset: str
    row: Row
    base: Row
    figure: str
    effect: Estimate
    p: float = math.nan
    corrected: float = math.nan
    same_sign: bool = False

    @property
    def is_mean(self) -> bool:
        return self.dataset == MEAN

    @property
    def established(self) -> bool:
        return self.corrected < LEVEL and self.same_sign


def check_baselines(wanted: Sequence[str], groups: Sequence[Group]) -> list[str]:
    """The baselines to use: those wanted, else those of `BASELINES` that the run has.

    Raises:
        InvalidInput: a wanted one that the run does not have.
    """
    there = {row.method for group in groups for row in group.rows}
    for method in wanted:
        if method not in there:
            raise InvalidInput(
                f"The run has no method {method!r} to be a baseline; it has "
                f"{', '.join(sorted(there))}."
            )
    return list(dict.fromkeys(wanted)) or [method for method in BASELINES if method in there]


def compare_all(everything: Sequence[Measures], baselines: Sequence[str]) -> list[Comparison]:
    """Every method against every baseline, on every data set and on their mean."""
    found = [
        comparison for measures in everything for comparison in _comparisons(measures, baselines)
    ]
    if not found:
        return []
    flips = min(max(_LEAST_FLIPS, _FLIPS_A_TEST * len(found)), _MOST_FLIPS)
    for measures in everything:
        for dataset in measures.by_dataset:
            part = [c for c in found if c.measures is measures and c.dataset == dataset]
            if part:
                _test(part, flips)
    corrected = inheritance(np.array([c.p for c in found]), _parents(found))
    for comparison, p in zip(found, corrected, strict=True):
        comparison.corrected = float(p)
    return found


def _parents(found: Sequence[Comparison]) -> list[int | None]:
    """A data set's comparison comes below that of the mean, which tests whether the two methods
    differ on any prompt at all."""
    mean = {(c.measures, c.row, c.base, c.figure): i for i, c in enumerate(found) if c.is_mean}
    return [None if c.is_mean else mean.get((c.measures, c.row, c.base, c.figure)) for c in found]


def opponents(rows: Sequence[Row], baselines: Sequence[str]) -> list[tuple[Row, Row]]:
    """Which row is held against which: no pair of rows twice, and none with itself.

    A baseline has the row's L and K; one that has no L or no K, or takes one draft, meets all.
    """
    found: dict[frozenset[Row], tuple[Row, Row]] = {}
    for method in baselines:
        for row in rows:
            fitting = [
                base
                for base in rows
                if base.method == method != row.method
                and base.draft_length in (0, row.draft_length)
                and base.num_drafts in (0, 1, row.num_drafts)
            ]
            if fitting:
                base = max(fitting, key=lambda base: base.num_drafts)
                found.setdefault(frozenset((row, base)), (row, base))
    return list(found.values())


def _comparisons(measures: Measures, baselines: Sequence[str]) -> Iterator[Comparison]:
    rows = measures.group.rows
    for row, base in opponents(rows, baselines):
        i, j = rows.index(row), rows.index(base)
        for dataset, measured in measures.by_dataset.items():
            efficiency = measured["block_efficiency"].difference(i, j)
            if base.draft_length and not math.isnan(efficiency.value):  # plain decoding has 1
                yield Comparison(measures, dataset, row, base, BLOCK_EFFICIENCY, efficiency)
            speed = measured["tokens_per_second"].ratio(i, j)
            if not math.isnan(speed.value):
                yield Comparison(measures, dataset, row, base, SPEED, speed)


def _test(comparisons: Sequence[Comparison], flips: int) -> None:
    differences = np.stack([_differences(c) for c in comparisons], axis=1)
    p_values = sign_flip_test(differences, flips, np.random.default_rng(SEED))
    for comparison, p, total in zip(
        comparisons, p_values, np.nansum(differences, axis=0), strict=True
    ):
        neutral = 1.0 if comparison.figure == SPEED else 0.0
        comparison.p = float(p)
        comparison.same_sign = bool(total * (comparison.effect.value - neutral) > 0)


def _differences(comparison: Comparison) -> Array:
    """Per unit, scaled so that their sum is the mean, or the mean over data sets of means."""
    group = comparison.measures.group
    mean = comparison.dataset == MEAN
    parts: list[Array] = []
    for dataset in group.samples if mean else [comparison.dataset]:
        sums = group.samples[dataset].sums
        i, j = group.rows.index(comparison.row), group.rows.index(comparison.base)
        above, below = (
            ("tokens", "seconds") if comparison.figure == SPEED else ("full_tokens", "full_rounds")
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            figures: Array = sums[above] / sums[below]
            if comparison.figure == SPEED:
                figures = np.log(figures)
            each = figures[:, i] - figures[:, j]
        each[~np.isfinite(each)] = np.nan
        known = int(np.count_nonzero(~np.isnan(each)))
        parts.append(each / max(1, known))
    return np.concatenate(parts)
