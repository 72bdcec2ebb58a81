"""Drafts from another vocabulary: exactly lossless, however little is shared or read."""

from __future__ import annotations

import numpy as np
import pytest

from multidraft import Decoder, SamplingParams
from multidraft.audit.exact import analyse_answer, analyse_rounds
from multidraft.draft import HybridTreeDrafter, LookupDrafter, ModelDrafter, UnionDrafter
from multidraft.models import TranslatedModel, load_model, share_vocabulary
from multidraft.models.reading import Reading
from multidraft.models.token_map import TokenMap
from tests.draft.laws import EXACT, random_model
from tests.engine.markov import markov, p_value, random_pair, sample

#: Four target tokens in three of the draft's; the last one is two.
MAPS = {
    "three shared": TokenMap([(1,), (0,), (2,), (0, 2)], [0, 1, 2]),
    "one read as another": TokenMap([(1,), (1,), (2,), (2, 2, 0)], [0, 2]),
    "one shared": TokenMap([(1, 0), (1,), (2, 2), (0, 2)], [1], (2,)),
}
every_map = pytest.mark.parametrize("token_map", MAPS.values(), ids=MAPS)
#: All is read, or the last two to four pieces.
every_context = pytest.mark.parametrize("context", [1 << 20, 5])


def translated(target, token_map: TokenMap, context: int = 1 << 20, seed: int = 2, zeros=0.0):
    """A draft whose law differs from context to context, all that it reads of it included."""
    draft = random_model(seed, 3, zeros)
    draft.max_length = context
    return TranslatedModel(draft, target, token_map)


@every_context
@every_map
@pytest.mark.parametrize("name", ["token", "spectr-gbv"])
def test_independent_drafts(name, token_map, context):
    target = random_model(1, 4)
    num_drafts = 1 if name == "token" else 2
    drafter = ModelDrafter(translated(target, token_map, context), num_drafts, 2)
    report = analyse_rounds(name, target, drafter, [2, 1], 4)
    assert report.max_error < EXACT
    assert report.expected_accepted > 0.05, "the draft is no draft"


@every_context
@every_map
def test_hybrid_trees(token_map, context):
    target = random_model(3, 4)
    drafter = HybridTreeDrafter(translated(target, token_map, context, zeros=0.3), 2, 4)
    assert analyse_rounds("traversal", target, drafter, [2, 2], 4).max_error < EXACT


@every_context
@every_map
@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_lookup_brings_tokens_that_the_draft_lacks(token_map, context, temperature):
    target = random_model(4, 4)
    tree = HybridTreeDrafter(translated(target, token_map, context), 2, 3)
    drafter = UnionDrafter(LookupDrafter(2, 3, 1), tree)
    params = SamplingParams(temperature=temperature, max_tokens=4)
    report = analyse_answer("traversal", target, drafter, [3, 0, 3, 1, 3, 0, 3], params)
    assert report.max_error < EXACT


class CutByRounds(Reading):
    """Biased: what is read begins where the round does."""

    def add(self, extension):
        super().add(extension)
        if len(self.nodes) == len(extension.tokens):  # the round's first call ends at its root
            self.root = self.nodes[-1].end

    def window(self, end):
        return self.root - 1


def test_what_is_read_may_not_depend_on_the_round(monkeypatch):
    """A carry spans rounds, and relies on a context having the same law in all of them."""
    target = random_model(1, 4)

    def error() -> float:
        drafter = ModelDrafter(translated(target, MAPS["three shared"], 7), 1, 2)
        return analyse_rounds("greedy-block", target, drafter, [2, 1], 4).max_error

    assert error() < EXACT
    monkeypatch.setattr("multidraft.models.translated.Reading", CutByRounds)
    assert error() > 1e-5


def drafters(target, token_map: TokenMap, context: int):
    def draft():
        return translated(target, token_map, context)

    return {
        "spectr-gbv": ModelDrafter(draft(), 3, 4),
        "token": ModelDrafter(draft(), 1, 3),
        "traversal": UnionDrafter(LookupDrafter(4, 4, 1), HybridTreeDrafter(draft(), 3, 6)),
    }


@every_context
@every_map
def test_functions_at_temperature_0(token_map, context):
    target = random_model(1, 4)
    params = SamplingParams(temperature=0.0, max_tokens=25)
    prompts = [[0, 1, 3, 1, 0], [2], [3, 3, 2]]
    plain = [r.token_ids for r in Decoder(target).generate(prompts, params)]
    for name, drafter in drafters(target, token_map, context).items():
        results = Decoder(target, drafter, name).generate(prompts, params)
        assert [r.token_ids for r in results] == plain


@pytest.mark.parametrize("name", ["spectr-gbv", "traversal"])
def test_law_over_many_rounds(name):
    """Slots that live on, whose context the draft reads a part of."""
    pair = random_pair(seed=3, vocab_size=4, mix=0.5)
    target = markov(pair.target)
    drafter = drafters(target, MAPS["three shared"], 5)[name]
    results = sample(Decoder(target, drafter, name), 600, seed=100, tokens=60)
    assert p_value(results, pair.target) > 1e-4
    assert np.mean([r.stats.block_efficiency for r in results]) > 1.3


@pytest.mark.slow
def test_the_real_pair_at_temperature_0():
    target = load_model("qwen2.5-coder-1.5b-instruct", dtype="float32", slots=1)
    draft = share_vocabulary(load_model("smollm2-135m-instruct", dtype="float32", slots=1), target)
    assert isinstance(draft, TranslatedModel)
    assert draft.shared == 39_237
    prompts = ["def fibonacci(n):\n    ", "天空为什么是蓝色的？"]
    params = SamplingParams(temperature=0.0, max_tokens=32)
    plain = [r.text for r in Decoder(target).generate(prompts, params)]
    for name, drafter in (
        ("spectr-gbv", ModelDrafter(draft, 3, 4)),
        ("traversal", HybridTreeDrafter(draft, 4, 12)),
    ):
        results = Decoder(target, drafter, name).generate(prompts, params)
        assert [r.text for r in results] == plain
        assert results[0].stats.accepted > 0
