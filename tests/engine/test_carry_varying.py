"""The law over many rounds where draft lengths vary, penalties apply, and the draft is its own.

A carry then reaches past the end of a shorter round: the leaf's law, and a plain step's, is
rewritten too.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from multidraft import Decoder, FunctionModel, SamplingParams
from multidraft.draft import ModelDrafter
from multidraft.draft.base import DraftRequest
from multidraft.verify import VERIFIERS, get_verifier
from tests.audit.test_exact import dropping_the_carry, variant
from tests.engine.enumerated import enumerate_output
from tests.engine.markov import Pair, markov, p_value, random_pair
from tests.engine.speaking import speaking

GREEDY = [name for name, verifier in VERIFIERS.items() if verifier.greedy]
DRAFT_LENGTHS = (3, 1, 0, 4, 2, 0, 0, 3)
SEQUENCES = 60

slow = pytest.mark.slow
#: One name per function that verifies; the slow tests take them all.
QUICK = ("token", "spectr", "spectr-gbv", "multipath", "traversal")
every_method = pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=slow) for name in VERIFIERS]
)


class Varying:
    """A `ModelDrafter` whose longest draft follows a fixed rule, 0 included (a plain step).

    The rule goes by the number of tokens so far, so every sequence is elsewhere in it, and a
    carry of any length meets a round of any other.
    """

    def __init__(self, drafter: ModelDrafter, lengths=DRAFT_LENGTHS):
        self._drafter, self._lengths = drafter, lengths
        self._rounds: Counter[int] = Counter()
        self.model, self.drafts = drafter.model, drafter.drafts
        self.draft_length = max(lengths)
        self.max_nodes = drafter.max_nodes

    def open(self, prompt, params, vocab_size):
        handle = self._drafter.open(prompt, params, vocab_size)
        self._rounds[handle] = 0
        return handle

    def close(self, handle):
        self._drafter.close(handle)

    def propose(self, requests):
        changed = []
        for r in requests:
            length = self._lengths[self._rounds[r.handle] % len(self._lengths)]
            self._rounds[r.handle] += 1
            length = min(length, r.draft_length)
            changed.append(DraftRequest(r.handle, r.tokens, length, r.carry_left, r.chance))
        return self._drafter.propose(changed)


def varying(pair: Pair, verifier, num_drafts: int = 3, lengths=DRAFT_LENGTHS) -> Decoder:
    method = get_verifier(verifier)
    count = 1 if method.drafts == "one" else num_drafts
    drafter = ModelDrafter(markov(pair.draft, 128), count, max(lengths))
    return Decoder(markov(pair.target, 128), Varying(drafter, lengths), method)


def decode(decoder: Decoder, sequences: int, tokens: int, seed: int = 1, **params):
    prompts = [[i % decoder.target.vocab_size] for i in range(sequences)]
    return decoder.generate(
        prompts, SamplingParams(max_tokens=tokens, seed=seed, ignore_eos=True, **params)
    )


# ------------------------------------------------------------ lengths that vary


@every_method
def test_draft_lengths_from_a_rule(name):
    pair = random_pair(seed=26, vocab_size=3, mix=0.3)
    sequences = 2 * SEQUENCES if name in GREEDY else SEQUENCES
    assert p_value(decode(varying(pair, name), sequences, 100), pair.target) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [DRAFT_LENGTHS, (5, 0, 0, 0, 0), (4, 1), (2, 6, 3)], ids=str)
@pytest.mark.parametrize("name", GREEDY)
def test_draft_lengths_from_a_rule_over_many_rounds(name, lengths):
    pair = random_pair(seed=26, vocab_size=3, mix=0.3)
    assert p_value(decode(varying(pair, name, lengths=lengths), 150, 300), pair.target) > 1e-4


@pytest.mark.parametrize("name", [*GREEDY, "traversal", "multipath"])
def test_rounds_that_shorten_towards_max_tokens(name):
    """Each of many short sequences, as a whole, has the target's law."""
    pair = random_pair(seed=26, vocab_size=3, mix=0.3)
    tokens, count = 4, 2_000
    results = decode(pair.decoder(name, 3, 3, slots=128), count, tokens)
    assert p_value(results, pair.target) > 1e-4
    assert whole_sequences(results, pair.target, tokens) > 1e-4


@pytest.mark.parametrize("pause", [1, 14, 15, 16, 17, 40])
def test_a_draft_catches_up_after_plain_steps(pause):
    """Equal to a target that looks at all of its context: accepted whole, or it lost its place."""
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.ones(7), size=7)

    def law(context):
        return rows[sum(token * (i % 5 + 1) for i, token in enumerate(context)) % 7]

    drafter = Varying(ModelDrafter(FunctionModel(7, law), 2, 3), (3, *[0] * pause, 2))
    decoder = Decoder(FunctionModel(7, law), drafter, "traversal")
    for result in decode(decoder, 3, 150):
        assert result.origins.count("draft") > 5
        assert "residual" not in result.origins


def test_a_carry_dropped_where_rounds_are_short_fails():
    pair = random_pair(seed=26, vocab_size=3, mix=0.3)
    wrong = varying(pair, variant("spectr-gbv", dropping_the_carry), 2, lengths=(3, 0, 0))
    assert whole_sequences(decode(wrong, 4_000, 4), pair.target, 4) < 1e-10
    right = varying(pair, "spectr-gbv", 2, lengths=(3, 0, 0))
    assert whole_sequences(decode(right, 4_000, 4), pair.target, 4) > 1e-4


def whole_sequences(results, laws: np.ndarray, tokens: int) -> float:
    """Chi-square of whole outputs, given the prompt's last token."""
    statistic, freedom = 0.0, 0
    for start in range(len(laws)):
        counts = Counter(tuple(r.token_ids) for r in results if r.prompt_token_ids[-1] == start)
        total = sum(counts.values())
        observed, expected = [0.0], [0.0]  # the first collects what is rare
        for path in itertools.product(range(len(laws)), repeat=tokens):
            steps = zip((start, *path), path, strict=False)
            mean = total * float(np.prod([laws[a, b] for a, b in steps]))
            if mean < 5:
                observed[0] += counts[path]
                expected[0] += mean
            else:
                observed.append(counts[path])
                expected.append(mean)
        o, e = (np.array(x[expected[0] == 0 :]) for x in (observed, expected))
        statistic += float(((o - e) ** 2 / e).sum())
        freedom += len(e) - 1
    return float(stats.chi2.sf(statistic, freedom))


# ------------------------------------------------------------ exactly, by enumeration


def exact_law(laws: np.ndarray, params: SamplingParams, prompt: list[int], tokens: int):
    """Penalties, temperature and truncation once more, by counting; every output's probability."""
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(tokens):
        longer = {}
        for output, probability in law.items():
            logits = np.log(laws[([*prompt, *output])[-1]])
            made = Counter(output)
            for token in range(len(laws)):
                if token in prompt or token in made:
                    r = params.repetition_penalty
                    logits[token] = logits[token] / r if logits[token] > 0 else logits[token] * r
                if token in made:
                    logits[token] -= params.presence_penalty
                    logits[token] -= params.frequency_penalty * made[token]
            if params.top_k:
                logits[np.argsort(-logits)[params.top_k :]] = -np.inf
            p = np.exp(logits / params.temperature)
            p /= p.sum()
            likeliest = np.argsort(-p)
            p[likeliest[1:][np.cumsum(p[likeliest])[:-1] >= params.top_p]] = 0
            p[p < params.min_p * p.max()] = 0
            for token, share in enumerate(p / p.sum()):
                if share > 0:
                    longer[(*output, token)] = probability * share
        law = longer
    return law


PENALTIES = SamplingParams(
    repetition_penalty=1.4, presence_penalty=0.6, frequency_penalty=-0.9, temperature=0.8
)
CASES = {
    "penalties": (PENALTIES, None),
    "draft colder": (SamplingParams(temperature=1.2), 0.5),
    "draft hotter, penalties": (PENALTIES, 2.0),
    "draft greedy": (SamplingParams(), 0.0),
    "top-k": (SamplingParams(top_k=2, presence_penalty=1.0), 1.5),
    "top-p": (SamplingParams(top_p=0.9, frequency_penalty=0.8), None),
    "min-p": (SamplingParams(min_p=0.2, temperature=1.2, presence_penalty=-0.5), 1.5),
}


@pytest.mark.parametrize("vocab_size", [2, pytest.param(3, marks=slow)])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", VERIFIERS)
def test_exact_law_of_an_output(name, case, vocab_size):
    """Of the engine: rounds that shorten, a carry that lives on, penalties by what came."""
    params, temperature = CASES[case]
    pair = random_pair(seed=25, vocab_size=3 if "-" in case else vocab_size, mix=0.3)
    prompt, tokens = [1, 0], 3
    drafts = 1 if VERIFIERS[name].drafts == "one" else 2
    drafter = ModelDrafter(markov(pair.draft), drafts, 2, temperature)
    law = enumerate_output(markov(pair.target), drafter, name, params, prompt, tokens)
    expected = exact_law(pair.target, params, prompt, tokens)
    assert law.keys() <= {k for k, p in expected.items() if p > 0}
    assert max(abs(law[k] - p) for k, p in expected.items()) < 1e-9
    if "-" in case:  # something was cut off, and not all but one token
        assert 3 < len(expected) < 3**tokens


@pytest.mark.parametrize("name", [*GREEDY, "traversal"])
@pytest.mark.parametrize("lengths", [(2, 0, 1, 0), (0, 2, 0)])
def test_exact_law_where_some_rounds_draft_nothing(name, lengths):
    """As a controller has it."""
    pair = random_pair(seed=25, vocab_size=2, mix=0.3)
    drafts = 1 if VERIFIERS[name].drafts == "one" else 2
    drafter = Varying(ModelDrafter(markov(pair.draft), drafts, 2), lengths)
    law = enumerate_output(markov(pair.target), drafter, name, SamplingParams(), [1], 4)
    expected = exact_law(pair.target, SamplingParams(), [1], 4)
    assert max(abs(law[k] - p) for k, p in expected.items()) < 1e-12


def test_enumeration_sees_a_dropped_carry():
    pair = random_pair(seed=25, vocab_size=2, mix=0.3)
    wrong = variant("spectr-gbv", dropping_the_carry)
    drafter = ModelDrafter(markov(pair.draft), 2, 2)
    law = enumerate_output(markov(pair.target), drafter, wrong, PENALTIES, [1, 0], 3)
    expected = exact_law(pair.target, PENALTIES, [1, 0], 3)
    assert max(abs(law[k] - p) for k, p in expected.items()) > 1e-5


@pytest.mark.parametrize("name", [*GREEDY, "traversal"])
def test_penalties_over_the_engine(name):
    """The same law from the engine itself, by counting."""
    pair = random_pair(seed=25, vocab_size=3, mix=0.3)
    tokens, count = 3, 1_500
    results = pair.decoder(name, 3, 3, slots=128).generate(
        [[1, 0]] * count, SamplingParams(**{**vars(PENALTIES), "max_tokens": tokens, "seed": 3})
    )
    expected = exact_law(pair.target, PENALTIES, [1, 0], tokens)
    counts = Counter(tuple(r.token_ids) for r in results)
    large = {k: count * p for k, p in expected.items() if count * p >= 5}
    observed = [counts[k] for k in large] + [count - sum(counts[k] for k in large)]
    means = [*large.values(), count - sum(large.values())]
    assert stats.chisquare(observed, means).pvalue > 1e-4


# ------------------------------------------------------------ a draft of its own


@pytest.mark.parametrize("temperature", [pytest.param(0.4, marks=slow), 2.5])
@every_method
def test_another_draft_temperature(name, temperature):
    pair = random_pair(seed=7, vocab_size=5, mix=0.5)
    drafts = 1 if VERIFIERS[name].drafts == "one" else 3
    drafter = ModelDrafter(markov(pair.draft), drafts, 3, temperature)
    results = decode(Decoder(markov(pair.target), drafter, name), SEQUENCES, 60)
    assert p_value(results, pair.target) > 1e-4


class TopK(ModelDrafter):
    """Truncates its own law, where the target's is whole: q > 0 = p at many tokens."""

    def open(self, prompt, params, vocab_size):
        params = SamplingParams(**{**vars(params), "top_k": 2})
        return super().open(prompt, params, vocab_size)


@every_method
def test_a_draft_with_top_k(name):
    pair = random_pair(seed=7, vocab_size=5, mix=0.5)
    drafter = TopK(markov(pair.draft), 1 if VERIFIERS[name].drafts == "one" else 3, 3)
    results = decode(Decoder(markov(pair.target), drafter, name), SEQUENCES, 60)
    assert p_value(results, pair.target) > 1e-4


@pytest.mark.parametrize("width", [4, 8], ids=["narrower", "wider"])
@every_method
def test_a_draft_padded_to_another_width(name, width):
    """Same tokenizer, other number of logits: the draft's law is cut or filled up."""
    pair = random_pair(seed=8, vocab_size=6, mix=0.5)
    draft = np.random.default_rng(9).dirichlet(np.ones(width), size=width)
    shared = min(width, 6)
    draft[:shared, :shared] += 2 * pair.draft[:shared, :shared]
    draft /= draft.sum(axis=1, keepdims=True)
    target, narrow = speaking(markov(pair.target)), speaking(markov(draft))
    drafter = ModelDrafter(narrow, 1 if VERIFIERS[name].drafts == "one" else 3, 3)
    results = decode(Decoder(target, drafter, name), SEQUENCES, 60)
    assert p_value(results, pair.target) > 1e-4


@every_method
def test_a_request_that_bans_all_the_draft_knows(name):
    pair = random_pair(seed=8, vocab_size=6, mix=0.5)
    draft = pair.draft[:3, :3] / pair.draft[:3, :3].sum(axis=1, keepdims=True)
    target, narrow = speaking(markov(pair.target)), speaking(markov(draft))
    drafter = ModelDrafter(narrow, 1 if VERIFIERS[name].drafts == "one" else 2, 2)
    decoder = Decoder(target, drafter, name)
    results = decode(decoder, 24, 60, logit_bias=dict.fromkeys(range(3), -np.inf))
    left = pair.target * (np.arange(6) >= 3)
    for result in results:
        result.prompt_token_ids = [3]  # the prompts' own tokens are banned ones
    assert p_value(results, left / left.sum(axis=1, keepdims=True)) > 1e-4


# ------------------------------------------------------------ shapes at the edge


@pytest.mark.parametrize(
    "shape", [(8, 1), (2, 24), *(pytest.param(s, marks=slow) for s in ((1, 24), (8, 8)))], ids=str
)
@every_method
def test_many_and_long_drafts(name, shape):
    pair = random_pair(seed=9, vocab_size=4, mix=0.8)
    results = decode(pair.decoder(name, *shape), 24, 60)
    assert p_value(results, pair.target) > 1e-4


@every_method
@pytest.mark.parametrize("vocab_size", [1, 2])
def test_vocabularies_of_one_and_two(name, vocab_size):
    pair = random_pair(seed=10, vocab_size=vocab_size, mix=0.2)
    for temperature in (0.0, 1.0):
        results = decode(pair.decoder(name, 3, 3), 24, 50, temperature=temperature)
        assert all(len(r.token_ids) == 50 for r in results)
    if vocab_size == 2:
        assert p_value(results, pair.target) > 1e-4


@every_method
def test_laws_with_zeros(name):
    """Tokens only the target has, tokens only the draft has, and point masses."""
    rng = np.random.default_rng(12)

    def laws():
        p = rng.dirichlet(np.ones(6), size=6) * (rng.random((6, 6)) < 0.5)
        p[np.arange(6), rng.integers(6, size=6)] += 0.2
        return p / p.sum(axis=1, keepdims=True)

    for _ in range(3):
        pair = Pair(laws(), laws())
        assert p_value(decode(pair.decoder(name, 3, 3), 24, 60), pair.target) > 1e-4


@every_method
def test_a_draft_equal_to_the_target(name):
    pair = random_pair(seed=3, vocab_size=5, mix=1.0)
    results = decode(pair.decoder(name, 3, 3), 24, 80)
    assert p_value(results, pair.target) > 1e-4
    if name != "multipath":
        assert all(r.stats.acceptance_rate == 1.0 for r in results)


def test_prompts_of_hugely_different_lengths():
    pair = random_pair(seed=3, vocab_size=5, mix=0.6)
    decoder = pair.decoder("spectr-gbv", 3, 3)
    prompts = [[1], [2] * 3_000, [3, 4], [0] * 500]
    params = [SamplingParams(max_tokens=20, seed=i) for i in range(4)]
    together = decoder.generate(prompts, params)
    for prompt, p, result in zip(prompts, params, together, strict=True):
        assert decoder.generate(prompt, p)[0].token_ids == result.token_ids


# ------------------------------------------------------------ float32


class Float32(FunctionModel):
    """Logits as real models give them; the draft's differ from the target's by rounding only."""

    def __init__(self, laws: np.ndarray, noise: float, seed: int):
        logits = torch.tensor(laws).log().float()
        draw = torch.Generator().manual_seed(seed)
        self._rows = logits + noise * torch.randn(logits.shape, generator=draw)
        super().__init__(len(laws), lambda context: ())

    def _logits(self, contexts):
        return self._rows[[context[-1] for context in contexts]]


@pytest.mark.parametrize("noise", [0.0, 1e-7, *(pytest.param(x, marks=slow) for x in (1e-5, 1e-3))])
@every_method
def test_residuals_of_rounding_alone(name, noise):
    """What is left after rejections is 1e-8 of the law, or nothing; peaked and flat rows."""
    rng = np.random.default_rng(13)
    laws = np.concatenate([rng.dirichlet(np.full(40, a), size=10) for a in (0.01, 0.1, 1, 100)])
    laws = np.maximum(laws, 1e-30)
    target, draft = Float32(laws, 0.0, 0), Float32(laws, noise, 1)
    drafter = ModelDrafter(draft, 1 if VERIFIERS[name].drafts == "one" else 4, 4)
    for params in ({}, {"temperature": 0.01}, {"top_p": 0.9, "temperature": 3.0}, {"top_k": 1}):
        results = decode(Decoder(target, drafter, name), 16, 30, **params)
        assert all(len(r.token_ids) == 30 for r in results)
        if name != "multipath":
            rates = [r.stats.acceptance_rate for r in results]
            assert np.mean(rates) > 1 - 40 * max(noise, 1e-7)
