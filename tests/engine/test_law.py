"""Over many rounds the engine's output has the target's law: fixed seeds, p > 1e-4."""

from __future__ import annotations

import numpy as np
import pytest

from multidraft import Decoder, SamplingParams
from multidraft.verify import VERIFIERS
from tests.audit.test_exact import dropping_the_carry, grouping_duplicates, variant
from tests.engine.markov import markov, p_value, random_pair, sample

ROUNDS = 4_000


#: The others share a function with one of these, with one draft.
several = pytest.mark.parametrize(
    "name",
    [
        n if v.drafts != "one" else pytest.param(n, marks=pytest.mark.slow)
        for n, v in VERIFIERS.items()
    ],
)


@several
def test_law(name):
    pair = random_pair(seed=3, vocab_size=5, mix=0.5)
    results = sample(pair.decoder(name, num_drafts=3, draft_length=3), ROUNDS, seed=100)
    assert p_value(results, pair.target) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vocab_size", "mix", "draft_length", "rounds"), [(4, 0.3, 4, 150_000), (8, 0.7, 3, 50_000)]
)
@pytest.mark.parametrize("name", VERIFIERS)
def test_law_over_many_rounds(name, vocab_size, mix, draft_length, rounds):
    pair = random_pair(seed=2, vocab_size=vocab_size, mix=mix)
    decoder = pair.decoder(name, num_drafts=3, draft_length=draft_length)
    assert p_value(sample(decoder, rounds, seed=200), pair.target) > 1e-4


def test_plain_decoding():
    law = random_pair(seed=3, vocab_size=5, mix=0.5).target
    results = Decoder(markov(law)).generate([[0]] * 64, SamplingParams(max_tokens=100, seed=5))
    assert p_value(results, law) > 1e-4
    assert all(r.stats.block_efficiency == 1.0 for r in results)


@several
def test_law_of_a_truncated_target(name):
    """top_p and temperature act on the target and the draft; what top_p cuts never appears."""
    pair = random_pair(seed=4, vocab_size=6, mix=0.6)
    params = SamplingParams(temperature=0.7, top_p=0.85, max_tokens=100, seed=6)
    results = pair.decoder(name, 3, 3).generate([[0]] * 64, params)
    assert p_value(results, warped(pair.target, 0.7, 0.85)) > 1e-4


def warped(laws: np.ndarray, temperature: float, top_p: float) -> np.ndarray:
    """Temperature and top-p written once more, the slow way."""
    laws = laws ** (1 / temperature)
    laws /= laws.sum(axis=1, keepdims=True)
    for law in laws:
        order = np.argsort(-law, kind="stable")
        kept = np.searchsorted(np.cumsum(law[order]), top_p) + 1
        law[order[kept:]] = 0
        law /= law.sum()
    return laws


# ------------------------------------------------------------ the tests have power


def test_a_carry_switched_off_fails():
    pair = random_pair(seed=25, vocab_size=4, mix=0.3)  # total variation over a round: 0.12
    wrong = pair.decoder(variant("spectr-gbv", dropping_the_carry), 2, 2)
    assert p_value(sample(wrong, 2 * ROUNDS, seed=100), pair.target) < 1e-10
    right = pair.decoder("spectr-gbv", 2, 2)
    assert p_value(sample(right, 2 * ROUNDS, seed=100), pair.target) > 1e-4


def test_grouped_duplicates_fail():
    pair = random_pair(seed=114, vocab_size=4, mix=0.3)  # total variation of a round's first: 0.05
    wrong = pair.decoder(variant("traversal", grouping_duplicates), 4, 1)
    assert p_value(sample(wrong, 2 * ROUNDS, seed=100), pair.target) < 1e-10
    right = pair.decoder("traversal", 4, 1)
    assert p_value(sample(right, 2 * ROUNDS, seed=100), pair.target) > 1e-4
