"""Intervals by resampling prompts."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from multidraft.bench.report.table import Estimate

Array = npt.NDArray[np.float64]

RESAMPLES = 2000
CONFIDENCE = 0.95
LEAST_UNITS = 5  # with fewer prompts there is nothing to resample
SEED = 20_260_101


def resample_counts(units: int, rng: np.random.Generator) -> Array:
    """How often each unit is in each resample of as many units. [RESAMPLES, units]"""
    counts = rng.multinomial(units, np.full(units, 1.0 / units), size=RESAMPLES)
    return counts.astype(np.float64)


def interval(value: float, samples: Array, units: int, confidence: float = CONFIDENCE) -> Estimate:
    """A value with its percentile interval, widened for few units.

    Percentiles of resamples are too narrow by sqrt((n − 1)/n) and know no t quantile. Taking them
    further out by both ("expanded percentile interval", Hesterberg 2015) mends that.

    Args:
        value: the statistic.
        samples: the statistic of each resample. [RESAMPLES]
        units: how many were resampled; the smallest number where several sets of them were.
        confidence: of the interval.
    """
    if units < LEAST_UNITS or math.isnan(value) or np.isnan(samples).all():
        return Estimate(value)
    tail = (1.0 - confidence) / 2.0
    widened = math.sqrt(units / (units - 1)) * stats.t.ppf(tail, units - 1)
    level = float(stats.norm.cdf(widened))
    low, high = np.nanquantile(samples, (level, 1.0 - level))
    return Estimate(value, float(low), float(high))
