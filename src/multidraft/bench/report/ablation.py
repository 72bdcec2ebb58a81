"""How figures move along L, K or T, where the grid has several of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multidraft.bench.methods import PLAIN
from multidraft.bench.report.measures import SPEED_UP, Measured, Measures
from multidraft.bench.report.table import Estimate

Array = npt.NDArray[np.float64]

#: An axis: the attribute of a `Point`, and its symbol.
AXES = {"draft_length": "L", "num_drafts": "K", "temperature": "T"}


@dataclass(frozen=True)
class Point:
    """One method's place in the grid, with its main figures (see `Measures.main`)."""

    pair: str
    batch: int
    method: str
    num_drafts: int
    draft_length: int
    temperature: float
    measured: dict[str, Measured]
    index: int

    def at(self, axis: str) -> float:
        value: float = getattr(self, axis)
        return value

    def estimate(self, figure: str) -> Estimate:
        return self.measured[figure].estimate(self.index)

    def samples(self, figure: str) -> Array:
        return self.measured[figure].samples[:, self.index]


@dataclass(frozen=True)
class Curve:
    """One method along an axis, everything else fixed; points in the axis's order."""

    method: str
    points: tuple[Point, ...]

    def peak(self) -> tuple[int, float] | None:
        """Where its speed-up is largest, and the share of resamples in which it is so there; NaN
        where they are all the same, as those of one prompt are."""
        values = np.array([point.estimate(SPEED_UP).value for point in self.points])
        if len(values) < 2 or np.isnan(values).any():
            return None
        top = int(values.argmax())
        samples = np.stack([point.samples(SPEED_UP) for point in self.points])
        if (samples == samples[:, :1]).all():
            return top, math.nan
        return top, float((samples.argmax(axis=0) == top).mean())


@dataclass(frozen=True)
class Ablation:
    """Curves that share a pair, a batch size and what is fixed.

    Attributes:
        axis: see `AXES`.
        values: of the axis.
        fixed: the other axes' values, without those no curve has.
        curves: methods that move along the axis.
        level: methods that do not have it, such as those of one draft along K.
    """

    pair: str
    batch: int
    axis: str
    values: tuple[float, ...]
    fixed: dict[str, float]
    curves: tuple[Curve, ...]
    level: tuple[Point, ...]

    @property
    def where(self) -> str:
        fixed = "".join(f", {AXES[axis]} = {value:g}" for axis, value in self.fixed.items())
        batch = f", batch {self.batch}" if self.batch > 1 else ""
        return f"{self.pair}{fixed}{batch}"


def find_ablations(everything: Sequence[Measures]) -> list[Ablation]:
    """One for each axis with several values and each setting of the other axes."""
    places: dict[tuple[str, int], list[Point]] = defaultdict(list)
    for measures in everything:
        group = measures.group
        if not measures.by_dataset:
            continue
        measured = measures.by_dataset[measures.main]
        for index, row in enumerate(group.rows):
            shape = (row.method, row.num_drafts, row.draft_length, group.temperature)
            point = Point(group.pair, group.batch, *shape, measured, index)
            if row.method != PLAIN and not np.isnan(point.estimate("tokens_per_second").value):
                places[group.pair, group.batch].append(point)
    return [
        ablation
        for (pair, batch), points in places.items()
        for axis in AXES
        for ablation in _along(axis, pair, batch, points)
    ]


def _along(axis: str, pair: str, batch: int, points: Sequence[Point]) -> list[Ablation]:
    others = [other for other in AXES if other != axis]
    drafted = [point for point in points if point.draft_length]
    # Methods of one draft are in the pictures of every K, and make none of their own.
    many = {point.method for point in drafted if point.num_drafts > 1}
    leading = [point for point in drafted if point.method in many or not many]
    found = []
    for setting in sorted({tuple(p.at(other) for other in others) for p in leading}):
        fixed = dict(zip(others, setting, strict=True))
        by_method: dict[str, list[Point]] = defaultdict(list)
        for point in sorted(drafted, key=lambda p: p.at(axis)):
            free = {"num_drafts"} if point.method not in many else set()
            if all(point.at(other) == fixed[other] for other in others if other not in free):
                by_method[point.method].append(point)
        curves = tuple(Curve(m, tuple(ps)) for m, ps in by_method.items() if len(ps) > 1)
        level = tuple(ps[0] for ps in by_method.values() if len(ps) == 1)
        if curves:
            values = sorted({p.at(axis) for curve in curves for p in curve.points})
            found.append(Ablation(pair, batch, axis, tuple(values), fixed, curves, level))
    return found
