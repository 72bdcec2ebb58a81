"""TransformersModel against the plain forward of the same weights, one path at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from multidraft.errors import InvalidInput
from multidraft.models.base import PREFIX, Extension, LanguageModel, NoFreeSlot
from multidraft.models.transformers_model import TransformersModel
from tests.models.tiny import CONFIGS, VOCAB, build, plain_logits


@pytest.fixture(scope="module", params=sorted(CONFIGS))
def pair(request):
    """A TransformersModel and the plain model with the same weights."""
    config = CONFIGS[request.param]
    return TransformersModel(build(config), slots=3), build(config)


@pytest.fixture(scope="module")
def llama():
    return TransformersModel(build(CONFIGS["llama"]), slots=3), build(CONFIGS["llama"])


@pytest.fixture(autouse=True)
def _slots_returned(request):
    yield
    for name in ("pair", "llama"):
        if name in request.fixturenames:
            model = request.getfixturevalue(name)[0]
            for slot in range(model.num_slots):
                if slot in model._slots:
                    model.close(slot)


def draw_tokens(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(VOCAB) for _ in range(count)]


def draw_parents(rng: random.Random, known: int, count: int) -> list[int]:
    return [rng.randrange(PREFIX, known + i) for i in range(count)]


def path_to(node: int, parents: Sequence[int]) -> list[int]:
    path: list[int] = []
    while node != PREFIX:
        path.insert(0, node)
        node = parents[node]
    return path


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    scale = expected.abs().max().clamp(min=1.0)
    torch.testing.assert_close(actual / scale, expected / scale, atol=1e-5, rtol=0)


class Mirror:
    """What a slot should hold, in tokens; checks logits against the plain model."""

    def __init__(self, model: TransformersModel, plain) -> None:
        self.model, self.plain = model, plain
        self.slot = model.open()
        self.prefix: list[int] = []
        self.tokens: list[int] = []
        self.parents: list[int] = []

    def prefill(self, tokens: list[int]) -> None:
        self.model.prefill(self.slot, tokens)
        self.prefix += tokens

    def grow(self, tokens: list[int], parents: list[int], wanted=None) -> Extension:
        self.first = len(self.tokens)
        self.wanted = range(len(tokens)) if wanted is None else wanted
        self.tokens += tokens
        self.parents += parents
        return Extension(self.slot, tokens, parents, wanted)

    def check(self, logits: torch.Tensor) -> None:
        assert logits.shape == (len(self.wanted), VOCAB)
        for row, node in zip(logits, self.wanted, strict=True):
            path = path_to(self.first + node, self.parents)
            assert_close(
                row, plain_logits(self.plain, self.prefix + [self.tokens[i] for i in path])
            )

    def commit(self, path: list[int]) -> None:
        self.model.commit(self.slot, path)
        self.prefix += [self.tokens[i] for i in path]
        self.tokens, self.parents = [], []
        assert self.model.length(self.slot) == len(self.prefix)

    def truncate(self, length: int) -> None:
        self.model.truncate(self.slot, length)
        self.prefix, self.tokens, self.parents = self.prefix[:length], [], []
        assert self.model.length(self.slot) == length


def test_is_a_language_model(llama):
    assert isinstance(llama[0], LanguageModel)
    assert (llama[0].vocab_size, llama[0].max_length, llama[0].num_slots) == (VOCAB, 128, 3)


@pytest.mark.parametrize("seed", range(3))
def test_random_trees_of_several_slots_match_one_forward_per_path(pair, seed):
    """Prefixes on both sides of the sliding window, trees grown twice, one call for all slots."""
    rng = random.Random(seed)
    mirrors = [Mirror(*pair) for _ in range(3)]
    for mirror, length in zip(mirrors, (0, 5, 21), strict=True):
        mirror.prefill(draw_tokens(rng, length))
    for _ in range(2):
        extensions = []
        for mirror in mirrors:
            count = rng.randrange(1, 9)
            parents = draw_parents(rng, len(mirror.tokens), count)
            extensions.append(mirror.grow(draw_tokens(rng, count), parents))
        for mirror, logits in zip(mirrors, pair[0].extend(extensions), strict=True):
            mirror.check(logits)


@pytest.mark.parametrize("seed", range(4))
def test_random_operations_match_a_fresh_forward(pair, seed):
    """Slots live on through prefill, extend, commit, truncate, close and reuse."""
    rng = random.Random(100 + seed)
    mirrors = [Mirror(*pair) for _ in range(3)]
    for _ in range(25):
        index = rng.randrange(3)
        mirror = mirrors[index]
        step = rng.choice(["prefill", "extend", "extend", "commit", "commit", "truncate", "reopen"])
        if step == "prefill" and not mirror.tokens and len(mirror.prefix) < 60:
            mirror.prefill(draw_tokens(rng, rng.randrange(12)))
        elif step == "extend" and len(mirror.prefix) < 60:
            chosen = rng.sample(mirrors, rng.randrange(1, 4))
            extensions = []
            for m in chosen:
                count = rng.randrange(5)
                parents = draw_parents(rng, len(m.tokens), count)
                wanted = rng.sample(range(count), rng.randrange(count + 1))
                extensions.append(m.grow(draw_tokens(rng, count), parents, wanted))
            for m, logits in zip(chosen, pair[0].extend(extensions), strict=True):
                m.check(logits)
        elif step == "commit":
            node = rng.randrange(PREFIX, len(mirror.tokens))
            mirror.commit(path_to(node, mirror.parents))
        elif step == "truncate":
            mirror.truncate(rng.randrange(len(mirror.prefix) + 1))
        elif step == "reopen":
            pair[0].close(mirror.slot)
            mirrors[index] = Mirror(*pair)
    extensions = [m.grow(draw_tokens(rng, 2), [PREFIX, len(m.tokens)]) for m in mirrors]
    for mirror, logits in zip(mirrors, pair[0].extend(extensions), strict=True):
        mirror.check(logits)


def test_chunked_prefill_matches(pair, monkeypatch):
    monkeypatch.setattr("multidraft.models.transformers_model._PREFILL_CHUNK", 7)
    mirror = Mirror(*pair)
    rng = random.Random(1)
    mirror.prefill(draw_tokens(rng, 30))
    mirror.prefill(draw_tokens(rng, 7))
    mirror.check(pair[0].extend([mirror.grow(draw_tokens(rng, 3), [PREFIX, PREFIX, 0])])[0])


def test_a_long_chain_grown_node_by_node_matches(pair):
    """As a draft proposes: each node extends the last, past the sliding window."""
    mirror = Mirror(*pair)
    rng = random.Random(2)
    for node in range(14):
        mirror.check(pair[0].extend([mirror.grow(draw_tokens(rng, 1), [node - 1])])[0])
    mirror.commit(list(range(14)))
    mirror.check(pair[0].extend([mirror.grow(draw_tokens(rng, 1), [PREFIX])])[0])


def test_a_tree_with_more_nodes_than_spare_rows_grows_the_cache(llama):
    """At the very end of the context only the number of nodes is large, not their depth."""
    rng = random.Random(3)
    mirror, neighbour = Mirror(*llama), Mirror(*llama)
    mirror.prefill(draw_tokens(rng, 126))
    neighbour.prefill(draw_tokens(rng, 9))
    count = 80
    mirror.check(llama[0].extend([mirror.grow(draw_tokens(rng, count), [PREFIX] * count)])[0])
    mirror.commit([70])
    mirror.check(llama[0].extend([mirror.grow(draw_tokens(rng, 1), [PREFIX])])[0])
    neighbour.check(llama[0].extend([neighbour.grow(draw_tokens(rng, 2), [PREFIX, PREFIX])])[0])


def test_logits_do_not_depend_on_neighbours(pair):
    rng = random.Random(4)
    model = pair[0]
    tokens, tree, parents = draw_tokens(rng, 12), draw_tokens(rng, 4), [PREFIX, 0, 0, 2]
    alone = model.open()
    model.prefill(alone, tokens)
    expected = model.extend([Extension(alone, tree, parents)])[0]
    model.close(alone)
    neighbours = [Mirror(*pair) for _ in range(2)]
    slot = model.open()
    model.prefill(slot, tokens)
    extensions = [Extension(slot, tree, parents)]
    for mirror, length in zip(neighbours, (3, 40), strict=True):
        mirror.prefill(draw_tokens(rng, length))
        extensions.insert(0, mirror.grow(draw_tokens(rng, 5), [PREFIX] * 5))
    assert_close(model.extend(extensions)[-1], expected)


def test_two_models_whose_calls_interleave(llama):
    """A target and a draft hold their state apart, whatever the order of their calls."""
    other = TransformersModel(build(CONFIGS["gpt2"], seed=5), slots=1), build(CONFIGS["gpt2"], 5)
    first, second = Mirror(*llama), Mirror(*other)
    rng = random.Random(6)
    for _ in range(3):
        for mirror in (first, second):
            parents = draw_parents(rng, len(mirror.tokens), 2)
            extension = mirror.grow(draw_tokens(rng, 2), parents)
            mirror.check(mirror.model.extend([extension])[0])


def test_no_wanted_logits_and_no_nodes(llama):
    mirror = Mirror(*llama)
    assert llama[0].extend([]) == []
    empty = llama[0].extend([mirror.grow([], [])])[0]
    unwanted = llama[0].extend([mirror.grow([1, 2], [PREFIX, 0], [])])[0]
    assert empty.shape == unwanted.shape == (0, VOCAB)
    mirror.check(llama[0].extend([mirror.grow([3], [1])])[0])


def test_a_failed_call_leaves_the_slots_as_they_were(llama):
    mirror = Mirror(*llama)
    mirror.prefill([1, 2, 3])
    mirror.check(llama[0].extend([mirror.grow([4], [PREFIX])])[0])
    for tokens, parents in (([5, 6], [0, 2]), ([VOCAB], [0]), ([-1], [0]), ([5], [0, 0])):
        with pytest.raises(InvalidInput):
            llama[0].extend([Extension(mirror.slot, tokens, parents)])
    mirror.check(llama[0].extend([mirror.grow([5, 6], [0, 1])])[0])


def test_one_slot_twice_in_a_call(llama):
    mirror = Mirror(*llama)
    first = mirror.grow([1, 2], [PREFIX, 0])
    second = Extension(mirror.slot, [3], [1])
    logits = llama[0].extend([first, second])
    mirror.check(logits[0])
    mirror.grow([3], [1])
    mirror.check(logits[1])


def test_misuse_is_refused(llama):
    model = llama[0]
    slots = [model.open() for _ in range(3)]
    with pytest.raises(NoFreeSlot):
        model.open()
    slot = slots[0]
    with pytest.raises(InvalidInput, match="exceeds this model's max_length of 128"):
        model.prefill(slot, [1] * 129)
    model.prefill(slot, [1] * 128)
    with pytest.raises(InvalidInput, match="129 tokens"):
        model.extend([Extension(slot, [1], [PREFIX])])
    model.truncate(slot, 100)
    with pytest.raises(InvalidInput, match="cannot keep 101"):
        model.truncate(slot, 101)
    model.extend([Extension(slot, [1, 2, 3], [PREFIX, 0, PREFIX])])
    with pytest.raises(InvalidInput, match="open tree"):
        model.prefill(slot, [1])
    for path in ([1], [0, 2], [3], [-1]):
        with pytest.raises(InvalidInput, match="no child"):
            model.commit(slot, path)
    model.close(slots[1])
    with pytest.raises(InvalidInput, match="not open"):
        model.length(slots[1])


@pytest.mark.parametrize("family", sorted(CONFIGS))
def test_bfloat16_passes_the_check_at_load(family):
    model = build(CONFIGS[family]).to(torch.bfloat16)
    assert TransformersModel(model, slots=1).dtype == torch.bfloat16
