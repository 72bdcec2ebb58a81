"""Lookup and model in one tree: exactly lossless, also where both propose the same token."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidraft import FunctionModel, SamplingParams
from multidraft.audit.exact import analyse_answer
from multidraft.chance import RandomChance
from multidraft.draft import HybridTreeDrafter, LookupDrafter, UnionDrafter
from multidraft.draft.base import DraftRequest
from multidraft.draft.growth import outside
from multidraft.tree import ROOT, DraftTree
from tests.draft.laws import EXACT, METHODS, random_model, same_law
from tests.engine.speaking import free_slots

REPETITIVE = [0, 1, 2, 0, 1, 1, 0, 1, 2, 0, 1]


def propose(drafter, tokens, params=None, draft_length=None, seed=0) -> DraftTree:
    handle = drafter.open(tokens, params or SamplingParams(), 3)
    length = drafter.draft_length if draft_length is None else draft_length
    tree = drafter.propose([DraftRequest(handle, tokens, length, 0, RandomChance((seed,)))])[0]
    drafter.close(handle)
    return tree


# ---------------------------------------------------------------- exactly


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    prompt=st.lists(st.integers(0, 2), min_size=4, max_size=12),
    lookup=st.sampled_from([(1, 1), (1, 3), (2, 3), (3, 4)]),
    tree=st.sampled_from([(1, 1), (1, 2), (2, 2), (2, 4), (3, 4)]),
    seed=st.integers(0, 2**32),
    zeros=st.sampled_from([0.0, 0.4]),
    temperature=st.sampled_from([1.0, 1.0, 1.0, 0.0]),
)
@pytest.mark.parametrize("name", METHODS)
def test_random_histories(name, prompt, lookup, tree, seed, zeros, temperature):
    """A whole answer of several rounds; with three tokens and matches of one, both sources often
    propose the same."""
    target, draft = random_model(seed, 3, zeros), random_model(seed + 1, 3, zeros)
    drafter = UnionDrafter(LookupDrafter(*lookup, 1), HybridTreeDrafter(draft, *tree))
    params = SamplingParams(temperature=temperature, max_tokens=3)
    assert analyse_answer(name, target, drafter, prompt, params).max_error < EXACT


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("widths", [[1], [2, 1], [1, 2]], ids=str)
def test_fixed_widths(name, widths):
    target, draft = random_model(5, 3), random_model(6, 3)
    drafter = UnionDrafter(LookupDrafter(2, 3, 1), HybridTreeDrafter(draft, 2, widths=widths))
    params = SamplingParams(max_tokens=4)
    assert analyse_answer(name, target, drafter, REPETITIVE, params).max_error < EXACT


class Overlay:
    """Biased: lookup's tokens laid over the model's tree after its draws, a drawn token that lookup
    has too made a chosen one."""

    def __init__(self, lookup, hybrid):
        self._right = UnionDrafter(lookup, hybrid)
        self.drafts, self.model = "any", hybrid.model
        self.draft_length, self.max_nodes = self._right.draft_length, self._right.max_nodes
        self.open, self.close = self._right.open, self._right.close

    def propose(self, requests):
        (request,) = requests
        (tree,) = self._right.tree_drafter.propose(requests)
        looked_up = DraftRequest(
            self._right._lookup_handle[request.handle], request.tokens, 1, 0, request.chance
        )
        (found,) = self._right.lookup.propose([looked_up])
        same = [found.tokens[entry.node] for entry in found.entries[ROOT]]
        tree.entries[ROOT] = [
            entry._replace(proposal=None) if tree.tokens[entry.node] in same else entry
            for entry in tree.entries[ROOT]
        ]
        for token in same:
            if tree.child(ROOT, token) is None:
                tree.add(ROOT, token, None)
        return [tree]


@pytest.mark.parametrize("name", METHODS)
def test_an_overlay_is_seen(name):
    target, draft = random_model(5, 3), random_model(6, 3)
    parts = LookupDrafter(1, 1, 1), HybridTreeDrafter(draft, 1, 1)
    params = SamplingParams(max_tokens=3)
    wrong, right = (
        analyse_answer(name, target, drafter, REPETITIVE, params)
        for drafter in (Overlay(*parts), UnionDrafter(*parts))
    )
    assert wrong.max_error > 1e-3
    assert right.max_error < EXACT


# ---------------------------------------------------------------- shape


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_node_of_lookup_is_there_and_nothing_is_drawn_that_it_has(temperature):
    params = SamplingParams(temperature=temperature)
    for seed in range(30):
        lookup = LookupDrafter(4, 6, 1)
        drafter = UnionDrafter(lookup, HybridTreeDrafter(random_model(seed, 3), 3, 6))
        found = propose(lookup, REPETITIVE)
        tree = propose(drafter, REPETITIVE, params, seed=seed)
        assert len(tree) - 1 <= drafter.max_nodes == 12
        place = {ROOT: ROOT}
        for node in range(1, len(found)):
            parent = place[found.parents[node]]
            place[node] = child = tree.child(parent, found.tokens[node])
            assert child is not None
            assert next(e for e in tree.entries[parent] if e.node == child).proposal is None
        for node, entries in enumerate(tree.entries):
            chosen = [tree.tokens[e.node] for e in entries if e.proposal is None]
            assert all(e.proposal is None for e in entries[1:])
            if entries and entries[0].proposal is not None:
                assert temperature > 0
                assert same_law(entries[0].proposal, outside(tree.laws[node], chosen))


def test_lookup_goes_on_beyond_the_model():
    drafter = UnionDrafter(
        LookupDrafter(6, 6), HybridTreeDrafter(FunctionModel(3, lambda _: [0.3, 0.3, 0.4]), 2, 4)
    )
    tokens = [0, 1, 2, 2, 1, 0, 0, 1, 2]
    assert propose(drafter, tokens).depth == drafter.draft_length == 6
    assert propose(drafter, tokens, draft_length=4).depth == 4
    assert len(propose(drafter, tokens, draft_length=0)) == 1


def test_the_model_scores_what_lookup_found():
    """…and draws below it."""
    draft = FunctionModel(3, lambda context: [0.1, 0.1, 0.8])
    tree = propose(UnionDrafter(LookupDrafter(1, 1), HybridTreeDrafter(draft, 2, 4)), [2, 2, 2])
    found = tree.child(ROOT, 2)
    assert found in tree.laws
    assert tree.entries[found]


def test_without_a_match_it_is_the_hybrid_tree():
    hybrid = HybridTreeDrafter(random_model(1, 3), 3, 6)
    union = propose(UnionDrafter(LookupDrafter(), hybrid), [0, 1, 2])
    alone = propose(hybrid, [0, 1, 2])
    assert union.tokens == alone.tokens
    assert union.parents == alone.parents


def test_no_free_slot_leaves_nothing_behind():
    draft = FunctionModel(3, lambda _: [0.3, 0.3, 0.4], slots=1)
    drafter = UnionDrafter(LookupDrafter(), HybridTreeDrafter(draft))
    handle = drafter.open([0], SamplingParams(), 3)
    with pytest.raises(RuntimeError, match="slots"):
        drafter.open([0], SamplingParams(), 3)
    drafter.close(handle)
    assert not drafter.lookup._histories
    assert free_slots(draft) == 1
