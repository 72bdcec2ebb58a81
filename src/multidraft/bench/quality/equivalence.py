"""Is one method as often right as another? From the same prompts, answered by both.

A difference of two proportions of the same prompts has Tango's score interval (Statistics in
Medicine 17, 1998, 891-908), which keeps its level in small samples and where no prompt tells the
methods apart. Two one-sided tests at 5% (Schuirmann 1987) establish equivalence within a margin
when the 90% interval lies within it.

Answers to the same prompt are alike, so repetitions say less than as many prompts would. Counts are
divided by the design effect (Rao & Scott, Biometrics 48, 1992, 577-585), which is 1 without
repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

Array = npt.NDArray[np.float64]

LEVEL = 0.05  # of each one-sided test
POWER = 0.8


@dataclass(frozen=True)
class Equivalence:
    """How two methods compare on the same prompts.

    Attributes:
        prompts: number of prompts.
        difference: of the shares of right answers, first minus second.
        low, high: its 90% interval.
        best: the smallest margin that so many prompts, on which the methods disagree so often,
            could establish: that of a difference of 0.
        per_prompt: the mean difference of each. [prompts]
    """

    prompts: int
    difference: float
    low: float
    high: float
    best: float
    per_prompt: Array

    @property
    def shown(self) -> float:
        """The smallest margin within which these answers establish equivalence."""
        return max(-self.low, self.high)

    def prompts_needed(self, margin: float) -> int:
        """Prompts that would establish a margin with 80% probability, if there is no difference and
        the methods go on disagreeing as often."""
        z = float(stats.norm.ppf(1 - LEVEL))
        # The half-width at a difference of 0 shrinks with the root of the number of prompts.
        spread = self.best * math.sqrt(self.prompts) / z
        quantiles = z + float(stats.norm.ppf((1 + POWER) / 2))
        return math.ceil((quantiles * spread / margin) ** 2)


def equivalence(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]]) -> Equivalence:
    """Compare two methods.

    Args:
        first, second: of each prompt, whether each repetition's answer was right; the same prompts
            and repetitions in both. [prompts][repetitions]
    """
    differences = [np.subtract(a, b, dtype=np.float64) for a, b in zip(first, second, strict=True)]
    each = np.concatenate(differences)
    effect = design_effect(differences)
    size = len(each) / effect
    better, worse = np.count_nonzero(each > 0) / effect, np.count_nonzero(each < 0) / effect
    low, high = tango(better, worse, size, 1 - 2 * LEVEL)
    between = (better + worse) / 2
    _, best = tango(between, between, size, 1 - 2 * LEVEL)
    per_prompt = np.array([d.mean() for d in differences])
    return Equivalence(len(first), float(each.mean()), low, high, best, per_prompt)


def tango(better: float, worse: float, size: float, confidence: float) -> tuple[float, float]:
    """Score interval of a difference of proportions in paired answers.

    Args:
        better, worse: pairs in which only the first, only the second was right.
        size: all pairs.
        confidence: of the interval.
    """
    z = float(stats.norm.ppf((1 + confidence) / 2))
    observed = (better - worse) / size

    def score(difference: float) -> float:
        a = 2 * size
        b = (2 * size - better + worse) * difference - better - worse
        c = -worse * difference * (1 - difference)
        only_second = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
        variance = size * (2 * only_second + difference * (1 - difference))
        distance = better - worse - size * difference
        return distance / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, distance)

    tiny = 1e-9
    low = high = observed
    if observed > -1 + tiny:
        low = optimize.brentq(lambda d: score(d) - z, -1 + tiny, observed - tiny)
    if observed < 1 - tiny:
        high = optimize.brentq(lambda d: score(d) + z, observed + tiny, 1 - tiny)
    return float(low), float(high)


def wilson(right: Sequence[Sequence[bool]], confidence: float) -> tuple[float, float]:
    """Score interval of a share of right answers (Wilson 1927). [prompts][repetitions]"""
    clusters = [np.asarray(answers, dtype=np.float64) for answers in right]
    each = np.concatenate(clusters)
    size, share = len(each) / design_effect(clusters), float(each.mean())
    z = float(stats.norm.ppf((1 + confidence) / 2))
    middle = share + z * z / (2 * size)
    spread = z * math.sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    scale = 1 + z * z / size
    return (middle - spread) / scale, (middle + spread) / scale


def design_effect(clusters: Sequence[Array]) -> float:
    """Variance of a mean of answers over what it would be if they were independent.

    At least 1, at most the number of repetitions; that where all values are the same, so that
    nothing can be told.

    Args:
        clusters: of each prompt, its answers' values. [prompts][repetitions]
    """
    each = np.concatenate(clusters)
    repetitions = len(each) / len(clusters)
    if repetitions == 1 or len(clusters) == 1:
        return repetitions
    mean = each.mean()
    single = ((each - mean) ** 2).sum() * len(each) / (len(each) - 1)
    if single == 0:
        return repetitions
    sums = np.array([(cluster - mean).sum() for cluster in clusters])
    grouped = (sums**2).sum() * len(clusters) / (len(clusters) - 1)
    return float(np.clip(grouped / single, 1.0, repetitions))
