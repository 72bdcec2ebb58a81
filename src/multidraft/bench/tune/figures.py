"""What was measured, with intervals that hold for all settings together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from multidraft.bench.records import Record
from multidraft.bench.report.bootstrap import CONFIDENCE, LEAST_UNITS, SEED, Array, interval
from multidraft.bench.report.group import Row, make_groups
from multidraft.bench.report.load import Run
from multidraft.bench.report.measures import Measured, Measures
from multidraft.bench.report.significance import sign_flip_test
from multidraft.bench.report.table import Estimate
from multidraft.bench.tune.settings import PLAIN

LEVEL = 1.0 - CONFIDENCE
_FLIPS = 200_000


def least_prompts(settings: int) -> int:
    """Prompts it takes for a gain of one of so many settings to be established at all.

    All of n prompts may be faster by chance, with probability 2^-n. That must be no more than one
    side of a setting's share of the level.
    """
    return max(LEAST_UNITS, math.ceil(math.log2(2.0 * settings / LEVEL)))


class Figures:
    """Figures of settings that decoded the same prompts.

    Intervals come from resampling prompts, paired. Settings are chosen by them, so they are wider
    than for one setting alone (Bonferroni): all of a column hold at once in 95% of cases. With
    fewer prompts than ``least`` there are none.

    Args:
        records: every setting's of every prompt, plain decoding's among them.
        max_tokens: of the requests.
    """

    def __init__(self, records: Sequence[Record], max_tokens: int):
        run = Run("tune", {"config": {"max_tokens": max_tokens}}, list(records), [], 0)
        self._measures = Measures(make_groups(run)[0])
        self.rows = self._measures.group.rows
        self.prompts = self._measures.group.samples["prompts"].prompts
        self._settings = max(1, sum(row != PLAIN for row in self.rows))
        self.least = least_prompts(self._settings)

    def speed(self, row: Row) -> Estimate:
        """Tokens per second, prompts included."""
        measured, i = self._speeds, self.rows.index(row)
        return self._interval(measured.values[i], measured.samples[:, i])

    def ratio(self, row: Row, base: Row) -> Estimate:
        """The row's speed over that of ``base``."""
        measured, i, j = self._speeds, self.rows.index(row), self.rows.index(base)
        samples = measured.samples[:, i] / measured.samples[:, j]
        return self._interval(measured.values[i] / measured.values[j], samples)

    def faster(self, row: Row, base: Row) -> bool:
        """Whether the row is established to be faster: its interval lies above 1, and it is by the
        paired test too (sign flips of each prompt's logarithm), for all settings together.

        The test holds its level on few prompts, where the interval is too narrow.
        """
        if not self.ratio(row, base).low > 1.0:  # nor where there is none
            return False
        sums = self._measures.group.samples["prompts"].sums
        logs = np.log(sums["tokens"] / sums["seconds"])
        difference = logs[:, self.rows.index(row)] - logs[:, self.rows.index(base)]
        (p,) = sign_flip_test(difference[:, None], _FLIPS, np.random.default_rng(SEED))
        return bool(self._settings * p < LEVEL and difference.sum() > 0.0)

    def block_efficiency(self, row: Row) -> float:
        """Tokens a round, over full rounds."""
        measured = self._measures.by_dataset["prompts"]["block_efficiency"]
        return float(measured.values[self.rows.index(row)])

    @property
    def _speeds(self) -> Measured:
        return self._measures.by_dataset["prompts"]["tokens_per_second"]

    def _interval(self, value: float, samples: Array) -> Estimate:
        if self.prompts < self.least:
            return Estimate(float(value))
        return interval(float(value), samples, self.prompts, 1.0 - LEVEL / self._settings)
