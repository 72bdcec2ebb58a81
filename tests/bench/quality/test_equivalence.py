"""Intervals cover, tests keep their level, and figures are those of the literature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from multidraft.bench.quality.equivalence import design_effect, equivalence, tango, wilson


def test_interval_of_the_literature():
    # Fagerland, Lydersen & Laake, Statistics in Medicine 33 (2014), airway hyper-responsiveness.
    assert tango(1, 7, 21, 0.95) == pytest.approx((-0.517, -0.026), abs=5e-4)


def test_interval_where_no_prompt_tells_the_methods_apart():
    z = stats.norm.ppf(0.95)
    limit = z**2 / (40 + z**2)
    assert tango(0, 0, 40, 0.9) == pytest.approx((-limit, limit), abs=1e-4)


def test_interval_at_the_ends():
    low, high = tango(5, 0, 5, 0.9)
    assert 0 < low < high == 1.0
    assert tango(0, 5, 5, 0.9) == pytest.approx((-high, -low))


@pytest.mark.parametrize(("prompts", "repetitions"), [(20, 1), (100, 1), (40, 3)])
def test_interval_covers_and_equivalence_keeps_its_level(prompts, repetitions):
    """Prompts differ in ease; the second method loses a fifth of the first one's right answers, a
    tenth of all. At that margin, 0.1, equivalence may be found in 5% of the cases."""
    rng, trials, covered, found = np.random.default_rng(1), 400, 0, 0
    for _ in range(trials):
        ease = rng.beta(0.5, 0.5, prompts)[:, None]
        first = rng.random((prompts, repetitions)) < 0.8 * ease
        second = rng.random((prompts, repetitions)) < ease
        result = equivalence(first, second)
        covered += result.low <= -0.1 <= result.high
        found += result.shown < 0.1
    assert 0.86 <= covered / trials <= 0.96
    assert found / trials <= 0.08


def test_equivalence_is_found_where_it_is():
    rng = np.random.default_rng(2)
    ease = rng.beta(0.3, 0.3, 600)
    first, second = ((rng.random(600) < ease)[:, None] for _ in range(2))
    result = equivalence(first, second)
    assert result.low < 0 < result.high and result.best <= result.shown < 0.06


def test_prompts_needed_are_what_it_takes():
    rng = np.random.default_rng(3)

    def answers(prompts):
        ease = rng.beta(0.5, 0.5, prompts)
        first, second = ((rng.random(prompts) < ease)[:, None] for _ in range(2))
        return equivalence(first, second)

    needed = int(np.mean([answers(200).prompts_needed(0.1) for _ in range(20)]))
    power = np.mean([answers(needed).shown < 0.1 for _ in range(200)])
    assert 0.7 < power < 0.9


def test_repetitions_alike_count_as_one():
    rng = np.random.default_rng(4)
    once = [(rng.random(30) < p)[:, None] for p in (0.4, 0.5)]
    thrice = [np.repeat(each, 3, axis=1) for each in once]
    a, b = equivalence(*once), equivalence(*thrice)
    assert (b.low, b.high) == pytest.approx((a.low, a.high), abs=1e-6)
    assert wilson(thrice[0], 0.95) == pytest.approx(wilson(once[0], 0.95), abs=1e-6)


def test_independent_repetitions_count():
    rng = np.random.default_rng(5)
    values = list(rng.normal(size=(500, 4)))
    assert design_effect(values) == pytest.approx(1.0, abs=0.15)
    assert design_effect([np.zeros(4)] * 10) == 4
    assert design_effect([np.zeros(1), np.ones(1)]) == 1


def test_share_of_right_answers():
    # Newcombe, Statistics in Medicine 17 (1998), 857-872: 15 of 148.
    right = [[i < 15] for i in range(148)]
    assert wilson(right, 0.95) == pytest.approx((0.0624, 0.1605), abs=5e-5)
