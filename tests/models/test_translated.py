"""A model behind another vocabulary against its plain forward over the pieces."""

from __future__ import annotations

import random

import pytest
import torch

from multidraft import FunctionModel
from multidraft.errors import InvalidInput
from multidraft.models import Extension, LanguageModel, TransformersModel, TranslatedModel
from multidraft.models.base import PREFIX
from multidraft.models.token_map import TokenMap
from tests.engine.speaking import free_slots
from tests.models.test_transformers_model import assert_close, draw_parents, path_to
from tests.models.tiny import CONFIGS, VOCAB, build, plain_logits

TARGET = 120  # tokens of the other vocabulary
MAPS = ("permuted", "pieces", "opening")


def make_map(kind: str) -> TokenMap:
    """Ids turned round; with unshared tokens of one to three pieces; with an opening."""
    rng = random.Random(7)
    order = rng.sample(range(VOCAB), VOCAB)
    pieces = [(piece,) for piece in order]
    pieces += [tuple(rng.randrange(VOCAB) for _ in range(1 + i % 3)) for i in range(TARGET - VOCAB)]
    mixed = rng.sample(range(TARGET), TARGET)
    where = {old: new for new, old in enumerate(mixed)}
    shared = sorted(where[i] for i in range(VOCAB if kind == "permuted" else 90))
    return TokenMap([pieces[old] for old in mixed], shared, (5, 6) if kind == "opening" else ())


def target_of(size: int, length: int = 1000) -> FunctionModel:
    return FunctionModel(size, lambda _: [1 / size] * size, max_length=length)


@pytest.fixture(scope="module", params=MAPS)
def pair(request):
    """Translated over a context of 32 pieces, and the plain model with its map."""
    model = TransformersModel(build(CONFIGS["llama"]), slots=3, max_length=32)
    token_map = make_map(request.param)
    return TranslatedModel(model, target_of(TARGET), token_map), build(CONFIGS["llama"]), token_map


def expected(plain, token_map: TokenMap, tokens: list[int]) -> torch.Tensor:
    """Logits after target tokens, from one plain forward over what is to be read of them."""
    pieces = [piece for token in tokens for piece in token_map.pieces[token]]
    half = (32 - len(token_map.opening)) // 2
    first = 0
    while len(pieces) - first > 2 * half:
        first += half
    row = plain_logits(plain, [*token_map.opening, *pieces[first:]])
    wide = torch.full((TARGET,), -torch.inf)
    for token in token_map.shared:
        wide[token] = row[token_map.pieces[token][0]]
    return wide


def assert_row(actual: torch.Tensor, wanted: torch.Tensor) -> None:
    assert actual.shape == wanted.shape
    assert (actual.isfinite() == wanted.isfinite()).all()
    assert_close(actual[wanted.isfinite()], wanted[wanted.isfinite()])


class Mirror:
    """What a slot should hold; checks each row against the plain model."""

    def __init__(self, model: TranslatedModel, plain, token_map: TokenMap):
        self.model, self.plain, self.map = model, plain, token_map
        self.slot = model.open()
        self.prefix: list[int] = []
        self.tokens: list[int] = []
        self.parents: list[int] = []

    def prefill(self, tokens: list[int]) -> None:
        self.model.prefill(self.slot, tokens)
        self.prefix += tokens

    def grow(self, tokens: list[int], parents: list[int], wanted=None) -> Extension:
        picks = range(len(tokens)) if wanted is None else wanted
        self.wanted = [len(self.tokens) + pick for pick in picks]
        self.tokens += tokens
        self.parents += parents
        return Extension(self.slot, tokens, parents, wanted)

    def check(self, logits: torch.Tensor) -> None:
        assert logits.shape == (len(self.wanted), TARGET)
        for row, node in zip(logits, self.wanted, strict=True):
            path = [self.tokens[i] for i in path_to(node, self.parents)]
            assert_row(row, expected(self.plain, self.map, self.prefix + path))

    def commit(self, path: list[int]) -> None:
        self.model.commit(self.slot, path)
        self.prefix += [self.tokens[i] for i in path]
        self.tokens, self.parents = [], []
        assert self.model.length(self.slot) == len(self.prefix)

    def truncate(self, length: int) -> None:
        self.model.truncate(self.slot, length)
        self.prefix, self.tokens, self.parents = self.prefix[:length], [], []
        assert self.model.length(self.slot) == length


@pytest.fixture
def mirrors(pair):
    made = [Mirror(*pair) for _ in range(3)]
    yield made
    for mirror in made:
        pair[0].close(mirror.slot)
    assert free_slots(pair[0]._model) == 3


def draw(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(TARGET) for _ in range(count)]


def test_is_a_language_model(pair):
    assert isinstance(pair[0], LanguageModel)
    assert (pair[0].vocab_size, pair[0].max_length, pair[0].num_slots) == (TARGET, 1000, 3)


def test_permuted_ids_give_the_same_logits_permuted():
    plain = TransformersModel(build(CONFIGS["llama"]), slots=1)
    order = random.Random(1).sample(range(VOCAB), VOCAB)
    token_map = TokenMap([(piece,) for piece in order], range(VOCAB))
    model = TranslatedModel(
        TransformersModel(build(CONFIGS["llama"]), slots=1), target_of(VOCAB), token_map
    )
    tokens, parents = [3, 1, 4, 1, 5], [PREFIX, 0, 0, PREFIX, 3]
    slot, other = model.open(), plain.open()
    model.prefill(slot, [2, 7, 1])
    plain.prefill(other, [order[t] for t in (2, 7, 1)])
    ours = model.extend([Extension(slot, tokens, parents)])[0]
    theirs = plain.extend([Extension(other, [order[t] for t in tokens], parents)])[0]
    assert torch.equal(ours, theirs[:, order])


@pytest.mark.parametrize("seed", range(3))
def test_random_operations_match_a_fresh_forward(mirrors, seed):
    """Through trees of several slots, commits, roll-backs, and contexts several times as long as
    the draft's."""
    rng = random.Random(seed)
    model = mirrors[0].model
    edges = 0
    for mirror, length in zip(mirrors, (0, 12, 27), strict=True):
        mirror.prefill(draw(rng, length))
    for _ in range(80):
        mirror = rng.choice(mirrors)
        step = rng.choice(["prefill", "extend", "extend", "extend", "commit", "truncate"])
        if step == "prefill" and not mirror.tokens:
            mirror.prefill(draw(rng, rng.randrange(18)))
        elif step == "extend":
            chosen = rng.sample(mirrors, rng.randrange(1, 4))
            extensions = []
            for m in chosen:
                count = rng.randrange(6)
                bushes = (draw_parents(rng, len(m.tokens), count) for _ in range(3))
                parents = [max(nodes) for nodes in zip(*bushes, strict=True)]  # deep ones
                wanted = rng.sample(range(count), rng.randrange(count + 1))
                extensions.append(m.grow(draw(rng, count), parents, rng.choice([wanted, None])))
            for m, logits in zip(chosen, model.extend(extensions), strict=True):
                m.check(logits)
            for reading in (model._readings[m.slot] for m in chosen):
                edges += len({reading.window(node.end) for node in reading.nodes}) > 1
        elif step == "commit":
            mirror.commit(path_to(rng.randrange(PREFIX, len(mirror.tokens)), mirror.parents))
        elif step == "truncate" and rng.random() < 0.1:
            mirror.truncate(rng.randrange(len(mirror.prefix) + 1))
    for mirror in mirrors:
        mirror.check(model.extend([mirror.grow(draw(rng, 1), [PREFIX])])[0])
    assert edges, "no open tree crossed an edge"


def test_a_long_chain_grown_node_by_node(mirrors):
    """Longer than the draft's whole context, in one open tree."""
    rng = random.Random(3)
    mirror = mirrors[0]
    mirror.prefill(draw(rng, 7))
    for node in range(45):
        mirror.check(mirror.model.extend([mirror.grow(draw(rng, 1), [node - 1])])[0])
    mirror.commit(list(range(45)))
    mirror.check(mirror.model.extend([mirror.grow(draw(rng, 2), [PREFIX, PREFIX])])[0])


def test_nodes_that_do_not_fit_are_committed_all_the_same(mirrors):
    rng = random.Random(6)
    mirror = mirrors[0]
    mirror.check(mirror.model.extend([mirror.grow(draw(rng, 40), [PREFIX, *range(39)], [0])])[0])
    mirror.commit(list(range(40)))
    mirror.truncate(38)
    mirror.check(mirror.model.extend([mirror.grow(draw(rng, 1), [PREFIX])])[0])


def test_the_law_of_a_context_is_the_same_in_every_round(mirrors):
    """Drafted from afar, or reached by commits: what is read depends on the tokens alone."""
    rng = random.Random(4)
    tokens = draw(rng, 40)
    at_once, by_steps = mirrors[:2]
    chain = at_once.grow(tokens, [PREFIX, *range(39)])
    together = at_once.model.extend([chain])[0]
    for token, row in zip(tokens, together, strict=True):
        alone = by_steps.model.extend([by_steps.grow([token], [PREFIX])])[0][0]
        assert_row(alone, row)
        by_steps.commit([0])


def test_usually_one_call_of_the_draft(mirrors):
    calls = []
    model = mirrors[0].model
    inner = model._model.extend
    model._model.extend = lambda extensions: calls.append(extensions) or inner(extensions)
    try:
        for mirror in mirrors:
            mirror.prefill([1, 2, 3])
        model.extend([m.grow([4, 5, 6], [PREFIX, 0, 0]) for m in mirrors])
    finally:
        del model._model.extend
    assert len(calls) == 1


def test_a_failed_call_leaves_the_slots_as_they_were(mirrors, monkeypatch):
    mirror, neighbour = mirrors[:2]
    model = mirror.model
    mirror.prefill([1, 2, 3])
    mirror.check(model.extend([mirror.grow([4], [PREFIX])])[0])
    for tokens, parents in (([5, 6], [0, 2]), ([TARGET], [0]), ([-1], [0]), ([5], [0, 0])):
        fine = Extension(neighbour.slot, [1], [PREFIX])
        with pytest.raises(InvalidInput):
            model.extend([fine, Extension(mirror.slot, tokens, parents)])
    inner = model._model.extend
    with monkeypatch.context() as patch:  # fails when the draft has the nodes already
        patch.setattr(model._model, "extend", lambda extensions: 1 / len(inner(extensions)[1:]))
        with pytest.raises(ZeroDivisionError):
            model.extend([Extension(mirror.slot, [9, 9], [0, 1])])
    mirror.check(model.extend([mirror.grow([8, 7], [0, 1])])[0])
    mirror.commit([0, 1, 2])
    neighbour.check(model.extend([neighbour.grow([7], [PREFIX])])[0])


def test_one_slot_twice_in_a_call_and_nothing_wanted(mirrors):
    mirror = mirrors[0]
    model = mirror.model
    first = mirror.grow([1, 2], [PREFIX, 0])
    logits = model.extend([first, Extension(mirror.slot, [3], [1])])
    mirror.check(logits[0])
    mirror.grow([3], [1])
    mirror.check(logits[1])
    assert model.extend([]) == []
    assert model.extend([mirror.grow([], [])])[0].shape == (0, TARGET)
    assert model.extend([mirror.grow([4, 5], [2, 3], [])])[0].shape == (0, TARGET)
    mirror.check(model.extend([mirror.grow([6], [4])])[0])


def test_misuse_is_refused(mirrors):
    model, slot = mirrors[0].model, mirrors[0].slot
    with pytest.raises(InvalidInput, match="max_length of 1000"):
        model.prefill(slot, [1] * 1001)
    mirrors[0].prefill([1] * 1000)
    with pytest.raises(InvalidInput, match="1001 tokens"):
        model.extend([Extension(slot, [1], [PREFIX])])
    mirrors[0].truncate(100)
    with pytest.raises(InvalidInput, match="cannot keep 101"):
        model.truncate(slot, 101)
    mirrors[0].check(model.extend([mirrors[0].grow([1, 2, 3], [PREFIX, 0, PREFIX])])[0])
    with pytest.raises(InvalidInput, match="open tree"):
        model.prefill(slot, [1])
    for path in ([1], [0, 2], [3], [-1]):
        with pytest.raises(InvalidInput, match="no child"):
            model.commit(slot, path)
    with pytest.raises(InvalidInput, match="not open"):
        model.length(99)


def test_a_draft_sure_of_what_the_target_lacks_proposes_any_shared_token():
    draft = FunctionModel(3, lambda _: [0.0, 0.0, 1.0])
    model = TranslatedModel(draft, target_of(3), TokenMap([(0,), (1,), (0, 0)], [0, 1]))
    (row,) = model.extend([Extension(model.open(), [0], [PREFIX])])[0]
    assert row.softmax(0).tolist() == [0.5, 0.5, 0.0]
    broken = FunctionModel(3, lambda _: [0.2, 0.3, 0.5])
    broken._logits = lambda contexts: torch.full((len(contexts), 3), -torch.inf)
    model = TranslatedModel(broken, target_of(3), TokenMap([(0,), (1,), (0, 0)], [0, 1]))
    (row,) = model.extend([Extension(model.open(), [0], [PREFIX])])[0]
    assert row.max() == -torch.inf, "a broken model is left to be seen"


def test_no_context():
    with pytest.raises(InvalidInput, match="larger max_length"):
        TranslatedModel(
            FunctionModel(2, lambda _: [0.5, 0.5], max_length=3),
            target_of(2),
            TokenMap([(0,), (1,)], [0], (0, 1)),
        )
