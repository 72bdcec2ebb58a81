"""A cost that depends on a count: straight lines between the counts that are given."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Curve:
    """Cost by count.

    Below the first point it is that point's; beyond the last one the last two are continued, a
    single one as a constant.

    Attributes:
        points: (count, cost), by rising count.
    """

    points: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, costs: Mapping[float, float]) -> Curve:
        return cls(tuple(sorted((float(count), float(cost)) for count, cost in costs.items())))

    @classmethod
    def constant(cls, cost: float) -> Curve:
        return cls(((1.0, cost),))

    @property
    def last(self) -> float:
        """The largest count that is given; infinite where the cost is the same for all."""
        return self.points[-1][0] if len(self.points) > 1 else float("inf")

    def __call__(self, count: float) -> float:
        if count <= self.last:
            return sum(share * self.points[i][1] for i, share in self.shares(count))
        (left, low), (right, high) = self.points[-2:]
        # Noise may make the last two fall, and a call of enough positions free.
        return max(high, low + (high - low) * (count - left) / (right - left))

    def shares(self, count: float) -> list[tuple[int, float]]:
        """The points that a count lies between and how near it is to each, summing to 1."""
        at = [each for each, _ in self.points]
        after = bisect_left(at, count)
        if after in (0, len(at)):
            return [(min(after, len(at) - 1), 1.0)]
        near = (count - at[after - 1]) / (at[after] - at[after - 1])
        return [(after - 1, 1.0 - near), (after, near)]

    def to_dict(self) -> dict[float, float]:
        return {int(at) if at.is_integer() else at: cost for at, cost in self.points}
