"""Over many rounds of the engine the output has the target's law: fixed seeds, p > 1e-4."""

from __future__ import annotations

import pytest

from multidraft import Decoder
from tests.draft.drafters import NAMES, make_drafter
from tests.draft.laws import METHODS, altered, without_rare_draws
from tests.engine.markov import markov, p_value, random_pair, sample


def decoder_for(pair, drafter: str, verifier: str, change=None) -> Decoder:
    made = make_drafter(drafter, markov(pair.draft))
    return Decoder(markov(pair.target), altered(made, change) if change else made, verifier)


@pytest.mark.parametrize("drafter", ["hybrid", "lookup", "union"])
def test_law(drafter):
    pair = random_pair(seed=3, vocab_size=5, mix=0.5)
    results = sample(decoder_for(pair, drafter, "traversal"), 1_500, seed=100, tokens=60)
    assert p_value(results, pair.target) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("vocab_size", "mix"), [(4, 0.3), (8, 0.7)])
@pytest.mark.parametrize("verifier", METHODS)
@pytest.mark.parametrize("drafter", NAMES)
def test_law_over_many_rounds(drafter, verifier, vocab_size, mix):
    pair = random_pair(seed=2, vocab_size=vocab_size, mix=mix)
    results = sample(decoder_for(pair, drafter, verifier), 20_000, seed=200)
    assert p_value(results, pair.target) > 1e-4


def test_a_dropped_draw_fails():
    pair = random_pair(seed=3, vocab_size=4, mix=0.3)
    results = sample(
        decoder_for(pair, "hybrid", "traversal", without_rare_draws), 1_500, seed=100, tokens=60
    )
    assert p_value(results, pair.target) < 1e-10
