"""A curve of costs that follows what calls really take."""

from __future__ import annotations

from collections.abc import Sequence

from multidraft.engine.control.curve import Curve

#: The pace is the mean of so many calls, fading; what a size differs by, of so many near it, with
#: the curve counting for a few.
_CALLS, _NEAR, _CURVE = 20, 25.0, 4.0


class Paced:
    """A curve, times the machine's present pace, times what sizes near a count differ by from it:
    what else runs on a machine slows calls that are bound by memory and those that are bound by
    arithmetic by different factors.

    Args:
        curve: cost by count, as measured before.
    """

    def __init__(self, curve: Curve):
        self._curve = curve
        self.pace = 1.0
        self._calls = 0
        self._near = [(1.0, _CURVE)] * len(curve.points)  # factor, and the calls it is known by

    def __call__(self, count: float) -> float:
        near = sum(share * self._near[i][0] for i, share in self._curve.shares(count))
        return self._curve(count) * self.pace * near

    def observe(self, counts: Sequence[float], taken: float) -> None:
        """Calls of these counts took so long together."""
        before = sum(map(self._curve, counts))
        usual = sum(map(self, counts)) / before
        # One call that met a busy moment is no news of the next.
        ratio = min(max(taken / before, usual / 2), usual * 2)
        self._calls = min(_CALLS, self._calls + 1)
        self.pace += (ratio - self.pace) / self._calls
        off = ratio * before / sum(map(self, counts))
        for count in counts:
            told = self._curve(count) / before
            for i, share in self._curve.shares(count):
                factor, known = self._near[i]
                known = min(_NEAR, known + told * share)
                self._near[i] = factor * (1.0 + told * share / known * (off - 1.0)), known
