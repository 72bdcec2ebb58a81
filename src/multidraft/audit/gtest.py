"""The G-test of a table, its power, and how far the sampled law lies from the exact one.

Sokal and Rohlf, Biometry (1995), ch. 17, for the G-test; Williams 1976 for its small-sample
correction; Cressie and Read 1984 for its noncentral limit, from which the power comes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from multidraft.audit.tables import Table

POWER = 0.99
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Outcome:
    """One test at one look.

    Attributes:
        name: of its table.
        degrees: degrees of freedom.
        statistic: G, corrected.
        p_value: from the chi-square law (`rare_test`: exact), before any correction for several
            tests and looks.
    """

    name: str
    degrees: int
    statistic: float
    p_value: float


def g_test(table: Table, counts: np.ndarray) -> Outcome:
    """Observed against exact law, each stratum given its own total.

    Args:
        table: the categories.
        counts: [cells] samples in each cell.
    """
    observed = table.observed(counts)
    strata = int(table.stratum.max()) + 1 if len(table.stratum) else 0
    totals = np.bincount(table.stratum, observed, strata)
    expected = totals[table.stratum] * table.q
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(observed > 0, observed * np.log(observed / expected), 0.0)
        g = 2 * np.bincount(table.stratum, terms, strata)
        sizes = np.bincount(table.stratum, minlength=strata)
        excess = np.bincount(table.stratum, 1 / table.q, strata) - 1
        correction = 1 + excess / (6 * totals * (sizes - 1))
    tested = (sizes > 1) & (totals > 0)
    degrees = int((sizes[tested] - 1).sum())
    statistic = float((g[tested] / correction[tested]).sum())
    p_value = float(stats.chi2.sf(statistic, degrees)) if degrees else 1.0
    return Outcome(table.name, degrees, statistic, p_value)


def rare_test(table: Table, counts: np.ndarray) -> Outcome:
    """Whether the rare cells, all together, came too often: exact, as so few are expected."""
    hits, samples = int(counts[table.rare].sum()), int(counts.sum())
    statistic = 0.0
    if hits > samples * table.rare_p:
        for n, p in ((hits, table.rare_p), (samples - hits, 1 - table.rare_p)):
            statistic += 2 * n * math.log(n / (samples * max(p, 1e-300))) if n else 0.0
    p_value = float(stats.binom.sf(hits - 1, samples, table.rare_p))
    return Outcome("rare sequences", 1, statistic, p_value)


def rare_detectable(rare_p: float, samples: int, level: float) -> float:
    """By how much the probability of the rare cells must be off for `rare_test` at ``level`` to
    find it with probability 0.99; it cannot be below its own value by more than that."""
    needed = int(stats.binom.isf(level, samples, rare_p)) + 1
    if needed > samples:
        return 1.0
    return float(stats.beta.ppf(POWER, needed, samples - needed + 1))


def detectable(degrees: int, samples: int, level: float) -> float:
    """The total variation that a test at ``level`` finds with probability 0.99, whatever its form.

    A law at total variation d has a chi-square distance of 4 d² at least (Cauchy-Schwarz, with
    equality where all probabilities are off by the same factor), so G is noncentral by 4 N d² or
    more.
    """
    if degrees == 0:
        # A point mass: any other token is seen at once.
        return float(-np.expm1(np.log1p(-POWER) / samples))
    critical = stats.chi2.isf(level, degrees)

    def missing(noncentrality: float) -> float:
        return float(stats.ncx2.sf(critical, degrees, noncentrality)) - POWER

    high = 2 * critical + 100.0
    return min(1.0, math.sqrt(optimize.brentq(missing, 1e-9, high) / (4 * samples)))


@dataclass(frozen=True)
class Variation:
    """Total variation between the sampled and the exact law over a table's categories.

    Attributes:
        estimate: where half of the samples choose the categories that are too frequent and the
            other half says by how much; free of the noise that the plain difference of
            frequencies adds up. At least 0.
        low, high: 95% confidence interval.
    """

    estimate: float
    low: float
    high: float


def variation(table: Table, halves: np.ndarray, excluded: np.ndarray) -> Variation:
    """Estimate and interval.

    Args:
        table: of one stratum or several of equal totals.
        halves: [2, cells] counts of the samples of even and odd number.
        excluded: [2] how many more of each half the law excludes altogether.

    The lower bound is Clopper and Pearson's for the categories that the other half chose. The upper
    one inverts the noncentral law of G (by Pinsker, or Cauchy-Schwarz, the total variation is no
    more than half the root of the noncentrality per sample); with excluded samples, where G is
    infinite, it is the plain difference of frequencies and the most that noise takes away from it
    (McDiarmid 1989). Rare cells are a category of their own, with Clopper and Pearson's bound.
    """
    strata = len(np.unique(table.stratum))
    exact = np.array([*(table.q - table.rare_q) / strata, table.rare_p, 0.0])
    rows = []
    for half, out in zip(halves, excluded, strict=True):
        rare = np.where(table.rare, half, 0)
        rows.append([*table.observed(half - rare), rare.sum(), out])
    counts = np.array(rows)
    totals = counts.sum(1)
    error = (1 - CONFIDENCE) / 2
    estimates, lows = [], []
    for chosen_by, other in ((0, 1), (1, 0)):
        too_many = counts[chosen_by] > totals[chosen_by] * exact
        hits, trials = counts[other][too_many].sum(), totals[other]
        if not trials:
            continue  # fewer samples than prompts
        estimates.append(hits / trials - exact[too_many].sum())
        low = stats.beta.ppf(error / 2, hits, trials - hits + 1) if hits else 0.0
        lows.append(low - exact[too_many].sum())
    samples = int(totals.sum())
    low = float(max(0.0, *lows))
    estimate = float(max(low, np.mean(estimates)))
    point_masses = len(table.category) == strata
    if table.degrees == 0 and (point_masses or table.rare.any()):
        unlikely = int(counts[:, -2:].sum())
        high = _largest_change(unlikely, samples, table.rare_p, error)
    elif excluded.any() or table.degrees == 0:
        cells = len(exact) - (not table.rare.any())
        difference = abs(counts.sum(0) / samples - exact).sum() / 2
        noise = math.sqrt(cells / samples) / 2 + math.sqrt(-math.log(error) / (2 * samples))
        high = difference + noise if table.degrees else 1.0
    else:
        high = 0.0
        if table.rare.any():
            error /= 2
            high = _largest_change(int(counts[:, -2].sum()), samples, table.rare_p, error)
        outcome = g_test(table, halves.sum(0))
        high += 0.5 * math.sqrt(_largest_noncentrality(outcome, error) / samples)
    return Variation(estimate, low, float(min(1.0, max(high, estimate))))


def _largest_change(hits: int, samples: int, p: float, error: float) -> float:
    """The most by which a probability may differ from ``p`` when so many hits were seen."""
    largest = float(stats.beta.isf(error, hits + 1, samples - hits)) if hits < samples else 1.0
    return max(largest - p, p)


def _largest_noncentrality(outcome: Outcome, error: float) -> float:
    """The largest with which a statistic as small as this one has probability ``error``."""

    def excess(noncentrality: float) -> float:
        return float(stats.ncx2.cdf(outcome.statistic, outcome.degrees, noncentrality)) - error

    if stats.chi2.cdf(outcome.statistic, outcome.degrees) <= error:
        return 0.0
    high = outcome.statistic + 10 * math.sqrt(outcome.statistic) + 50.0
    return float(optimize.brentq(excess, 1e-12, high))
