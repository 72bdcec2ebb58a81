"""Two samples: one law or two?"""

from __future__ import annotations

import numpy as np
import pytest

from multidraft.audit.onoff import compare_on_off, speculation_off
from multidraft.audit.two_sample import two_sample
from multidraft.errors import InvalidInput
from tests.audit.synthetic import PROMPT, Exact, law_of, setting, shifted


def draws(rng, p, count):
    return [tuple(divmod(int(i), 6)) for i in rng.choice(len(p), count, p=p)]


def test_p_values_of_equal_laws_are_spread():
    rng = np.random.default_rng(0)
    small = 0
    for seed in range(40):
        laws = [rng.dirichlet(np.full(30, 0.4)) for _ in range(3)]
        a, b = ([draws(rng, p, 60) for p in laws] for _ in range(2))
        small += two_sample(a, b, 0.001, seed).p_value <= 0.1
    assert small <= 11  # 4 expected at most; P(> 11) < 1e-3


def test_a_difference_is_found_where_it_is():
    rng = np.random.default_rng(1)
    laws = [rng.dirichlet(np.full(30, 0.4)) for _ in range(3)]
    other = [*laws[:2], rng.dirichlet(np.full(30, 0.4))]
    a = [draws(rng, p, 300) for p in laws]
    b = [draws(rng, p, 300) for p in other]
    report = two_sample(a, b, 0.001)
    assert report.p_value <= 0.001
    assert report.worst[0][0] == 2


def test_the_detectable_difference_is_detected():
    """Where all probabilities are off by one factor, as the bound has it: 40 of 40."""
    rng = np.random.default_rng(2)
    p = np.full(30, 1 / 30)
    report = two_sample([draws(rng, p, 3000)], [draws(rng, p, 3000)], 0.001)
    factor = np.where(np.arange(30) % 2, 1 + 2 * report.detectable, 1 - 2 * report.detectable)
    found = [
        two_sample([draws(rng, p, 3000)], [draws(rng, p * factor, 3000)], 0.001, s).p_value
        for s in range(40)
    ]
    assert np.mean(np.array(found) <= 0.001) >= 0.9


@pytest.mark.parametrize(("bias", "verdict"), [(0.0, "SAME"), (0.3, "DIFFERENT")])
def test_on_against_off(bias, verdict):
    law = law_of(setting())
    on, off = Exact([law], 1, shifted(law, bias)), Exact([law], 2)
    report = compare_on_off(on, off, [(PROMPT, "abcd")], 1500, 4, tuple, 500)
    assert report.verdict == verdict
    assert report.samples == report.planned == 1500
    assert not set(on.seeds) & set(off.seeds)


def test_interrupted_it_tests_what_there_is_of_both():
    law = law_of(setting())

    class Interrupted(Exact):
        def sample(self, requests):
            if len(self.seeds) >= 400:
                raise KeyboardInterrupt
            return super().sample(requests)

    prompts = [(PROMPT, "abcd")]
    report = compare_on_off(Interrupted([law], 1), Exact([law], 2), prompts, 1000, 4, tuple, 200)
    assert (report.verdict, report.samples) == ("UNDECIDED", 400)
    with pytest.raises(KeyboardInterrupt):
        compare_on_off(Exact([law], 1), Interrupted([law], 2), prompts, 1000, 4, tuple, 200)


def test_too_few_samples_to_find_anything_are_undecided():
    law = law_of(setting())
    other = Exact([law], 2, law.p[::-1])
    report = compare_on_off(Exact([law], 1), other, [(PROMPT, "abcd")], 4, 4, tuple, 8)
    assert (report.verdict, report.test.detectable) == ("UNDECIDED", 1.0)


def test_answers_of_no_text():
    report = two_sample([[()] * 20], [[()] * 20], 0.001)
    assert (report.p_value, report.detectable) == (1.0, 1.0)


def test_an_alpha_that_permutations_cannot_show():
    for alpha in (0.0, 1.0, float("nan"), 1e-7):
        with pytest.raises(InvalidInput, match="alpha"):
            two_sample([[(0,)] * 20], [[(1,)] * 20], alpha)
    # Each test can reach its own share of alpha.
    ten = [(0,) * 10], [(1,) * 10]
    report = two_sample([ten[0] * 40], [ten[1] * 40], 1e-4)
    assert all(d.p_value * 20 <= 1e-4 for d in report.differences)


def test_the_engine_without_speculation():
    assert speculation_off("multidraft:spectr") == "multidraft:ar"
    assert speculation_off("multidraft") == "multidraft:ar"
    assert speculation_off("transformers:assisted") == "transformers:plain"
    assert speculation_off("vllm:ngram") == "vllm:plain"
    assert speculation_off("openai") == "openai"
    for plain in ("multidraft:ar", "transformers", "vllm"):
        with pytest.raises(InvalidInput, match="does not speculate"):
            speculation_off(plain)
