"""Intervals cover, tests keep their level, and the corrections keep it for all tests together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from multidraft.bench.report.bootstrap import LEAST_UNITS, interval, resample_counts
from multidraft.bench.report.significance import holm, inheritance, sign_flip_test


def _prompts(units: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rounds and tokens of prompts that differ in length and ease; 3 tokens a round in truth."""
    rounds = rng.integers(5, 40, units).astype(float)
    ease = rng.gamma(6.0, 0.5, units)
    return rounds, rng.poisson(rounds * ease).astype(float)


@pytest.mark.parametrize("units", [8, 30])
def test_interval_of_a_ratio_of_sums_covers(units):
    rng, covered, trials = np.random.default_rng(1), 0, 600
    counts = resample_counts(units, rng)
    for _ in range(trials):
        rounds, tokens = _prompts(units, rng)
        found = interval(tokens.sum() / rounds.sum(), counts @ tokens / (counts @ rounds), units)
        covered += found.low <= 3.0 <= found.high
    assert 0.92 <= covered / trials <= 0.98


def test_interval_of_a_mean_over_data_sets_covers():
    rng, covered, trials = np.random.default_rng(2), 0, 600
    resamples = [resample_counts(units, rng) for units in (10, 40)]
    for _ in range(trials):
        values, samples = [], []
        for counts in resamples:
            rounds, tokens = _prompts(counts.shape[1], rng)
            values.append(tokens.sum() / rounds.sum())
            samples.append(counts @ tokens / (counts @ rounds))
        found = interval(np.mean(values), np.mean(samples, axis=0), 10)
        covered += found.low <= 3.0 <= found.high
    assert 0.92 <= covered / trials <= 0.985


def test_no_interval_without_prompts_to_resample():
    found = interval(2.0, np.array([1.0, 3.0]), LEAST_UNITS - 1)
    assert found.value == 2.0 and math.isnan(found.low) and math.isnan(found.high)


def test_sign_flips_keep_their_level():
    rng = np.random.default_rng(3)
    # Prompts differ in scale, and the noise has heavy tails; only the sign is fair.
    scale = rng.lognormal(0.0, 1.0, (20, 1))
    p = sign_flip_test(scale * rng.standard_t(2, (20, 3000)), 4000, rng)
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).mean() <= level + 4 * math.sqrt(level / 3000)
        assert (p <= level).mean() >= level - 4 * math.sqrt(level / 3000)


def test_sign_flips_against_all_assignments():
    differences = np.array([3.0, 1.0, -0.5, 2.0, 0.25])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1)
    exact = (np.abs(differences @ signs) >= abs(differences.sum())).mean()
    (p,) = sign_flip_test(differences[:, None], 100_000, np.random.default_rng(0))
    assert p == pytest.approx(exact, abs=0.005)


def test_prompts_that_say_nothing_change_nothing():
    differences = np.array([[1.0, 0.0], [np.nan, 0.0], [2.0, np.nan]])
    p = sign_flip_test(differences, 4000, np.random.default_rng(0))
    assert p[0] == pytest.approx(0.5, abs=0.05)  # two prompts: both signs alike in half the cases
    assert p[1] == 1.0


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1.0, 1.0])


def test_inheritance_by_hand():
    p = np.array([0.001, 0.004, 0.03, 0.02, 0.001, 0.5])
    parents = [None, 0, 0, None, 3, 3]
    # In order: 2·0.001, 2·2·0.004, 2·0.02, 2·2·0.001, 2·0.03 (the last of its family), 0.5.
    assert inheritance(p, parents) == pytest.approx([0.002, 0.016, 0.06, 0.04, 0.04, 0.5])


def test_inheritance_without_children_is_holm():
    p = np.random.default_rng(0).uniform(size=20) ** 3
    assert inheritance(p, [None] * 20) == pytest.approx(holm(p))
    assert len(inheritance(np.array([]), [])) == 0


def test_children_wait_for_their_parent():
    corrected = inheritance(np.array([0.9, 1e-9, 1e-6]), [None, 0, None])
    assert corrected[0] == corrected[1] == pytest.approx(0.9)
    assert corrected[2] == pytest.approx(2e-6)


def test_inheritance_keeps_its_level_and_sees_more_than_holm():
    """Families of paired tests: some differ everywhere, some in one data set, most nowhere."""
    rng, trials, families, sets = np.random.default_rng(4), 400, 8, 4
    truth = np.zeros((families, sets))
    truth[0], truth[1, 0], truth[2, 1] = 1.0, 1.6, -3.0
    parents = [None if i % (sets + 1) == 0 else i - i % (sets + 1) for i in range(40)]
    real = np.concatenate([truth.any(axis=1, keepdims=True), truth != 0], axis=1).ravel()
    wrong, seen, by_holm = 0, 0, 0
    for _ in range(trials):
        z = rng.normal(size=(families, sets)) + 2.0 * truth
        both = np.concatenate([z.sum(axis=1, keepdims=True) / math.sqrt(sets), z], axis=1).ravel()
        p = 2 * stats.norm.sf(np.abs(both))
        established = inheritance(p, parents) < 0.05
        wrong += bool((established & ~real).any())
        seen += int(established[:: sets + 1].sum())
        by_holm += int((holm(p) < 0.05)[:: sets + 1].sum())
    assert wrong / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)
    assert seen > 1.1 * by_holm
