"""Hybrid trees: exactly lossless at every budget, and of the shape they promise."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multidraft import Decoder, FunctionModel, SamplingParams
from multidraft.audit.exact import analyse_answer, analyse_rounds, model_of
from multidraft.chance import RandomChance
from multidraft.draft import HybridTreeDrafter
from multidraft.draft.base import DraftRequest
from multidraft.draft.growth import likeliest_tokens, outside
from multidraft.errors import InvalidInput
from multidraft.tree import ROOT
from tests.audit.laws import GOLDEN, parse
from tests.draft.laws import (
    EXACT,
    METHODS,
    all_as_chosen,
    altered,
    drawn_last,
    random_model,
    ranked,
    same_law,
    set_apart_too_late,
    some_as_chosen,
    without_rare_choices,
    without_rare_draws,
)

# ---------------------------------------------------------------- exactly


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_values(case, name):
    """w = K at the root and 1 below."""
    length = case["draft_length"]
    drafter = HybridTreeDrafter(model_of(parse(case["draft"])), length, widths=[case["num_drafts"]])
    target = model_of(parse(case["target"]))
    report = analyse_rounds(name, target, drafter, [length], length + 1)
    assert report.max_error < EXACT
    if name == "traversal":
        expected = case["expected_accepted_drafts"]["hybrid-root-traversal"]
        assert report.expected_accepted == pytest.approx(expected, abs=1e-9)


@st.composite
def cases(draw):
    """A target, a drafter by budget or by widths, and the depth of a round: few enough draws for
    all to be enumerated."""
    vocab_size, depth, most = draw(
        st.sampled_from([(3, 1, 3), (3, 2, 6), (3, 3, 5), (4, 1, 4), (4, 2, 5), (2, 3, 7)])
    )
    seed = draw(st.integers(0, 2**32))
    target = random_model(seed, vocab_size, draw(st.sampled_from([0.0, 0.4])))
    draft = random_model(seed + 1, vocab_size, draw(st.sampled_from([0.0, 0.4])))
    if draw(st.booleans()):
        return target, HybridTreeDrafter(draft, depth, draw(st.integers(1, most))), depth
    widths = draw(st.sampled_from([[1], [2], [3], [1, 2], [2, 2]] if depth == 2 else [[1], [2]]))
    return target, HybridTreeDrafter(draft, depth, widths=widths), depth


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(case=cases())
def test_random_laws(name, case):
    target, drafter, depth = case
    assert analyse_rounds(name, target, drafter, [depth], depth + 1).max_error < EXACT


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=300, deadline=None)
@given(case=cases())
def test_many_random_laws(name, case):
    target, drafter, depth = case
    assert analyse_rounds(name, target, drafter, [depth], depth + 1).max_error < EXACT


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("lengths", [(2, 2), (1, 2), (2, 0, 2)], ids=str)
def test_rounds_in_a_row(name, lengths):
    target, draft = random_model(7, 3, 0.2), random_model(8, 3, 0.2)
    drafter = HybridTreeDrafter(draft, 2, 5)
    assert analyse_rounds(name, target, drafter, lengths, 4).max_error < EXACT


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.6, top_p=0.8, max_tokens=4),
        SamplingParams(top_k=2, repetition_penalty=1.5, frequency_penalty=0.5, max_tokens=4),
        SamplingParams(temperature=0.0, max_tokens=4),
    ],
    ids=["top-p", "penalties", "greedy"],
)
def test_whole_answers(name, params):
    """Truncation, penalties along the tree, and a greedy target; the last round is shorter."""
    target, draft = random_model(9, 4), random_model(10, 4)
    drafter = HybridTreeDrafter(draft, 3, 7)
    assert analyse_answer(name, target, drafter, [0, 1], params).max_error < EXACT


def test_a_draft_that_is_the_target_is_always_accepted():
    laws = random_model(3, 3, zeros=0.3)
    report = analyse_rounds("traversal", laws, HybridTreeDrafter(laws, 2, 2), [2], 3)
    assert report.expected_accepted == pytest.approx(2.0, abs=1e-9)


# ---------------------------------------------------------------- the tests can fail


def error_of(name, drafter, vocab_size=3) -> float:
    target = random_model(20, vocab_size)
    return analyse_rounds(name, target, drafter, [2], 3).max_error


@pytest.mark.parametrize("name", METHODS)
def test_wrong_trees_are_seen(name):
    draft = random_model(21, 3)
    two_by_two, chain = HybridTreeDrafter(draft, 2, widths=[2, 2]), HybridTreeDrafter(draft, 2, 2)
    for right in (drawn_last, without_rare_choices, all_as_chosen):
        assert error_of(name, altered(two_by_two, right)) < EXACT
    for wrong in (without_rare_draws, some_as_chosen, ranked):
        assert error_of(name, altered(two_by_two, wrong)) > 1e-3, wrong.__name__
    assert error_of(name, chain) < EXACT
    assert error_of(name, altered(chain, set_apart_too_late)) > 1e-3


# ---------------------------------------------------------------- shape


def propose(drafter, prompt=(0,), params=None, draft_length=None, seed=0):
    params = params or SamplingParams()
    handle = drafter.open(prompt, params, drafter.model.vocab_size)
    length = drafter.draft_length if draft_length is None else draft_length
    request = DraftRequest(handle, list(prompt), length, 0, RandomChance((seed,)))
    tree = drafter.propose([request])[0]
    drafter.close(handle)
    return tree


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("budget", [1, 2, 5, 18])
def test_entries_of_every_node(budget, greedy):
    """Drawn first from the tail, then the likeliest; never more than the budget and the depth."""
    params = SamplingParams(temperature=0.0 if greedy else 1.0)
    for seed in range(20):
        draft = random_model(seed, 6, zeros=0.3)
        drafter = HybridTreeDrafter(draft, 4, budget)
        tree = propose(drafter, params=params, seed=seed)
        assert 0 < len(tree) - 1 <= drafter.max_nodes == budget
        assert tree.depth <= 4
        assert tree.chains is None
        for node, entries in enumerate(tree.entries):
            if not entries:
                continue
            law = tree.laws[node]
            chosen = [tree.tokens[e.node] for e in entries if e.proposal is None]
            drawn = [e for e in entries if e.proposal is not None]
            assert chosen == likeliest_tokens(law, len(chosen))
            assert len({e.node for e in entries}) == len(entries)
            assert not (greedy and drawn)
            if drawn:
                assert drawn == [entries[0]]
                assert tree.tokens[drawn[0].node] not in chosen
                assert same_law(drawn[0].proposal, outside(law, chosen))


def test_fixed_widths():
    drafter = HybridTreeDrafter(random_model(1, 5), 4, widths=[3, 2])
    tree = propose(drafter)
    assert drafter.max_nodes == len(tree) - 1 == 3 + 6 + 6 + 6
    assert [len(entries) for entries in tree.entries[:4]] == [3, 2, 2, 2]
    assert all(len(entries) <= 1 for entries in tree.entries[4:])


def test_a_shorter_round_and_none():
    drafter = HybridTreeDrafter(random_model(1, 5), 4, 12)
    assert propose(drafter, draft_length=2).depth == 2
    assert len(propose(drafter, draft_length=0)) == 1


def test_it_branches_where_the_draft_is_unsure():
    unsure_law, sure_law = [0.3, 0.3, 0.3, *[0.1 / 7] * 7], [0.991, *[0.001] * 9]
    drafter = HybridTreeDrafter(
        FunctionModel(10, lambda context: unsure_law if context[-1] == 1 else sure_law), 6, 18
    )
    unsure, sure = propose(drafter, prompt=(1,)), propose(drafter, prompt=(0,))
    assert len(unsure.entries[ROOT]) > len(sure.entries[ROOT])
    assert sure.depth == 6


def test_unlikely_paths_end_and_the_budget_is_not_spent_for_its_own_sake():
    draft = FunctionModel(100, lambda context: [0.97, *[0.03 / 99] * 99])
    tree = propose(HybridTreeDrafter(draft, 3, 60))
    assert tree.depth == 3
    assert len(tree) < 20


def test_one_call_of_the_draft_per_depth():
    draft = random_model(5, 6)
    calls = []
    extend = draft.extend
    draft.extend = lambda extensions: (calls.append(len(extensions)), extend(extensions))[1]
    drafter = HybridTreeDrafter(draft, 4, 18)
    handles = [drafter.open([0], SamplingParams(), 6) for _ in range(3)]
    drafter.propose([DraftRequest(h, [0], 4, 0, RandomChance((h,))) for h in handles])
    assert len(calls) <= 4
    assert calls[0] == 3


def test_the_draft_has_a_temperature_of_its_own():
    draft = random_model(5, 6)
    for own, request, effective in [(None, 0.5, 0.5), (2.0, 0.5, 2.0), (None, 0.0, 1.0)]:
        drafter = HybridTreeDrafter(draft, 2, 4, temperature=own)
        tree = propose(drafter, params=SamplingParams(temperature=request))
        law = torch.as_tensor(draft._law((0,))) ** (1 / effective)
        assert same_law(tree.laws[ROOT], law / law.sum())


def test_ties_go_to_the_lower_id():
    law = torch.tensor([0.1, 0.2, 0.2, 0.1, 0.2, 0.2])
    assert [likeliest_tokens(law, n) for n in range(4)] == [[], [1], [1, 2], [1, 2, 4]]
    assert likeliest_tokens(law, 9) == [1, 2, 4, 5, 0, 3]
    wide = torch.full((5000,), 1 / 5000)
    assert likeliest_tokens(wide, 3) == [0, 1, 2]


def test_a_tail_is_summed_not_subtracted():
    law = torch.tensor([0.1] * 10)  # in float32 the sum of nine is not 1 − 0.1
    assert outside(law, range(10)) is None
    tail = outside(law, range(9))
    assert tail[9] == 1.0
    assert not tail[:9].any()


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"draft_length": 0}, "draft_length"),
        ({"max_nodes": 0}, "max_nodes"),
        ({"max_nodes": 2.5}, "max_nodes"),
        ({"widths": [2, 0]}, "widths"),
        ({"widths": [2], "max_nodes": 4}, "not both"),
        ({"draft_length": 1, "widths": [2, 2]}, "2 widths"),
        ({"temperature": -1}, "temperature"),
    ],
)
def test_refusals(kwargs, words):
    with pytest.raises(InvalidInput, match=words):
        HybridTreeDrafter(random_model(1, 3), **kwargs)


def test_the_engine_takes_it_with_methods_for_any_tree_only():
    target, draft = random_model(1, 3), random_model(2, 3)
    for name in METHODS:
        Decoder(target, HybridTreeDrafter(draft), name)
    for name in ("token", "block", "spectr-gbv", "multipath"):
        with pytest.raises(InvalidInput, match=name):
            Decoder(target, HybridTreeDrafter(draft), name)
