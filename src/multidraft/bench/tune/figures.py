"""What was measured, with intervals that hold for all settings together."""

from __future__ import annotations

from collections.abc import Sequence

from multidraft.bench.records import Record
from multidraft.bench.report.bootstrap import CONFIDENCE, LEAST_UNITS, Array, interval
from multidraft.bench.report.group import Row, make_groups
from multidraft.bench.report.load import Run
from multidraft.bench.report.measures import Measured, Measures
from multidraft.bench.report.table import Estimate
from multidraft.bench.tune.settings import PLAIN

#: With fewer prompts there are no intervals.
LEAST_PROMPTS = LEAST_UNITS


class Figures:
    """Figures of settings that decoded the same prompts.

    Intervals come from resampling prompts, paired. Settings are chosen by them, so they are wider
    than for one setting alone (Bonferroni): all of a column hold at once in 95% of cases.

    Args:
        records: every setting's of every prompt, plain decoding's among them.
        max_tokens: of the requests.
    """

    def __init__(self, records: Sequence[Record], max_tokens: int):
        run = Run("tune", {"config": {"max_tokens": max_tokens}}, list(records), [], 0)
        self._measures = Measures(make_groups(run)[0])
        self.rows = self._measures.group.rows
        self.prompts = self._measures.group.samples["prompts"].prompts
        drafting = [row for row in self.rows if row != PLAIN]
        self._confidence = 1.0 - (1.0 - CONFIDENCE) / max(1, len(drafting))

    def speed(self, row: Row) -> Estimate:
        """Tokens per second, prompts included."""
        measured, i = self._speeds, self.rows.index(row)
        return self._interval(measured.values[i], measured.samples[:, i])

    def ratio(self, row: Row, base: Row) -> Estimate:
        """The row's speed over that of ``base``."""
        measured, i, j = self._speeds, self.rows.index(row), self.rows.index(base)
        samples = measured.samples[:, i] / measured.samples[:, j]
        return self._interval(measured.values[i] / measured.values[j], samples)

    def block_efficiency(self, row: Row) -> float:
        """Tokens a round, over full rounds."""
        measured = self._measures.by_dataset["prompts"]["block_efficiency"]
        return float(measured.values[self.rows.index(row)])

    @property
    def _speeds(self) -> Measured:
        return self._measures.by_dataset["prompts"]["tokens_per_second"]

    def _interval(self, value: float, samples: Array) -> Estimate:
        return interval(float(value), samples, self.prompts, self._confidence)
