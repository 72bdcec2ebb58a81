"""Draws and coins have the probabilities they are given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from multidraft.chance import RandomChance


@pytest.mark.parametrize("size", [1, 2, 511, 512, 513, 1024, 5000])
def test_draws_have_the_law(size):
    rng = np.random.default_rng(size)
    law = torch.tensor(rng.dirichlet(np.full(size, 0.1)), dtype=torch.float32)
    law[::3] = 0 if size > 2 else law[::3]
    law *= 1.7  # any positive sum
    chance = RandomChance((size,))
    draws = 4000
    counts = np.bincount([chance.draw(law) for _ in range(draws)], minlength=size)
    expected = law.double().numpy() / float(law.double().sum()) * draws
    assert not counts[expected == 0].any()
    large = expected >= 5
    if large.sum() > 1:
        observed = [*counts[large], counts[~large].sum()]
        wanted = [*expected[large], expected[~large].sum()]
        if wanted[-1] < 5:
            observed, wanted = observed[:-1], wanted[:-1]
        assert (
            stats.chisquare(observed, np.array(wanted) / sum(wanted) * sum(observed)).pvalue > 1e-4
        )


class Stuck:
    """A generator that always says the same."""

    def __init__(self, value):
        self.value = value

    def random(self):
        return self.value


@pytest.mark.parametrize("u", [0.0, 0.5, np.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("size", [3, 512, 1000, 1536])
def test_the_ends_of_the_unit_interval_draw_possible_tokens(u, size):
    law = torch.zeros(size)
    law[size // 2] = 1e-30
    law[size // 3] = 3e-30
    chance = RandomChance((0,))
    chance._generator = Stuck(u)
    assert chance.draw(law) in (size // 2, size // 3)


def test_coins():
    chance = RandomChance((1,))
    assert not any(chance.accept(0.0) for _ in range(1000))
    assert all(chance.accept(1.0) for _ in range(1000))
    heads = sum(chance.accept(0.3) for _ in range(10_000))
    assert stats.binomtest(heads, 10_000, 0.3).pvalue > 1e-4
    chance._generator = Stuck(0.0)  # u can be 0: a probability of 0 must still fail
    assert not chance.accept(0.0)


def test_streams_are_keyed():
    law = torch.full((1000,), 1e-3)

    def draws(key):
        chance = RandomChance(key)
        return [chance.draw(law) for _ in range(20)]

    assert draws((7, 1)) == draws((7, 1))
    assert draws((7, 1)) != draws((7, 2))
    assert draws((2**32, 0)) != draws((0, 1))
    assert draws((2**70,)) != draws((2**71,))
    assert draws(None) != draws(None)
