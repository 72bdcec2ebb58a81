"""Trees under prices: exactly lossless, and without what is not worth its price."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidraft import SamplingParams
from multidraft.audit.exact import analyse_answer
from multidraft.chance import RandomChance
from multidraft.draft import HybridTreeDrafter, LookupDrafter, UnionDrafter
from multidraft.draft.base import SURENESSES, DraftRequest, Prices, offered, sureness
from multidraft.tree import ROOT
from tests.draft.laws import EXACT, METHODS, Priced, random_model

prices = st.builds(
    Prices,
    node=st.sampled_from([0.0, 0.1, 0.4]),
    first=st.sampled_from([0.0, 0.3, 1.0]),
    calls=st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.9]), max_size=3).map(tuple),
    draft=st.just(()) | st.tuples(*[st.sampled_from([0.3, 0.8, 1.5])] * SURENESSES),
    lookup=st.sampled_from([0.4, 1.0]),
    sure=st.sampled_from([0.0, 0.7, 0.9, math.inf]),
    model_gain=st.sampled_from([-math.inf, 0.3, math.inf]),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    told=st.lists(prices, min_size=3, max_size=3),
    seed=st.integers(0, 2**32),
    temperature=st.sampled_from([1.0, 1.0, 0.0]),
    union=st.booleans(),
)
@pytest.mark.parametrize("name", METHODS)
def test_lossless_whatever_the_prices(name, told, seed, temperature, union):
    """Prices that change from round to round, and with the last token."""
    target, draft = random_model(seed, 3), random_model(seed + 1, 3)
    drafter = HybridTreeDrafter(draft, 3, 4)
    if union:
        drafter = UnionDrafter(LookupDrafter(2, 2, 1), drafter)
    priced = Priced(drafter, lambda tokens: told[(len(tokens) + tokens[-1]) % 3])
    params = SamplingParams(temperature=temperature, max_tokens=3)
    report = analyse_answer(name, target, priced, [0, 1, 2, 0, 1], params)
    assert report.max_error < EXACT


def propose(drafter, told, tokens=(0, 1, 2, 0, 1)):
    handle = drafter.open(tokens, SamplingParams(), 3)
    request = DraftRequest(handle, list(tokens), drafter.draft_length, 0, RandomChance((1,)), told)
    tree = drafter.propose([request])[0]
    drafter.close(handle)
    return tree


def test_a_call_that_is_not_worth_its_price_is_not_made():
    drafter = HybridTreeDrafter(random_model(1, 3), 6, 12)
    free = propose(drafter, Prices())
    assert free.depth == 6
    reach = dict.fromkeys(range(1, 7), 0.0)
    for node in range(1, len(free)):
        reach[len(free.path(node))] += free.reach[node]
    # A price between what two levels add ends the tree at the second.
    price = (reach[2] + reach[3]) / 2
    assert reach[2] > price > reach[3]
    tree = propose(drafter, Prices(calls=(0.0, price)))
    assert tree.depth == 3  # the call after level 2 is worth it, the one after level 3 is not
    assert len(tree.draft_rows) == 3
    assert propose(drafter, Prices(calls=(0.0, 0.0, 9.0))).depth == 2


def test_no_node_below_its_price():
    drafter = HybridTreeDrafter(random_model(1, 3), 6, 12)
    tree = propose(drafter, Prices(node=0.3))
    assert 1 < len(tree) < len(propose(drafter, Prices()))
    assert all(reach >= 0.3 * 0.9 for reach in tree.reach.values())  # guesses, before the draw


def test_a_draft_that_is_not_relied_on_is_worth_less():
    drafter = HybridTreeDrafter(random_model(1, 3), 6, 12)
    believed = propose(drafter, Prices(node=0.05, calls=(0.3,)))
    ends = [n for n in range(len(believed)) if len(believed.path(n)) == 2]
    unsure = sureness(sum(believed.reach[n] for n in ends))
    assert unsure > 0 and believed.depth > 2
    doubts = [0.01 if kind == unsure else 1.0 for kind in range(SURENESSES)]
    doubted = propose(drafter, Prices(node=0.05, calls=(0.3,), draft=tuple(doubts)))
    assert doubted.depth == 2
    assert doubted.tokens == believed.tokens[: len(doubted)]  # no node is worth less
    # A call pays only for what its nodes add beyond their own price.
    assert len(propose(drafter, Prices(node=0.2, calls=(0.0, 0.5)))) < len(
        propose(drafter, Prices(node=0.0, calls=(0.0, 0.5)))
    )


def test_the_model_is_asked_only_where_it_adds_more_than_lookup():
    lookup = LookupDrafter(4, 4, 1)
    drafter = UnionDrafter(lookup, HybridTreeDrafter(random_model(1, 3), 4, 6))
    found = propose(lookup, Prices(node=0.1))
    worth = offered(found, Prices(node=0.1))
    assert worth == pytest.approx(sum(found.reach.values()) - 0.1 * (len(found) - 1))
    asked = propose(drafter, Prices(0.1, model_gain=worth + 0.01))
    alone = propose(drafter, Prices(0.1, model_gain=worth - 0.01))
    assert ROOT in asked.laws and asked.draft_rows
    assert not alone.laws and alone.tokens == found.tokens and alone.reach[1] == found.reach[1]


def test_scoring_anything_must_be_worth_its_price():
    """Where two positions cost much more than one: all, or nothing."""
    lookup, tree = LookupDrafter(4, 4, 1), HybridTreeDrafter(random_model(1, 3), 4, 6)
    drafter = UnionDrafter(lookup, tree)
    worth = offered(propose(lookup, Prices()), Prices())
    few, many = (Prices(first=worth + more, model_gain=-math.inf) for more in (-0.01, 0.01))
    for each in (lookup, drafter):
        assert propose(each, few).tokens == propose(lookup, Prices()).tokens
        assert len(propose(each, many)) == 1
    # The draft's law at the root decides, before anything is drawn.
    for each in (tree, drafter):
        asked = propose(each, Prices(node=0.4, first=9.0))
        reach = sum(asked.reach[entry.node] for entry in asked.entries[ROOT])
        assert 0.0 < reach < 1.0
        sure, unsure = (Prices(node=0.4, first=9.0, sure=reach + more) for more in (-0.001, 0.001))
        assert propose(each, sure).tokens == asked.tokens
        nothing = propose(each, unsure)
        assert len(nothing) == 1 and nothing.draft_rows == [1]
    # Lookup that is worth it is scored anyway.
    both = propose(drafter, Prices(first=worth - 0.01, sure=math.inf))
    assert both.draft_rows and len(both) > len(propose(lookup, Prices()))


def test_lookup_that_is_not_relied_on():
    lookup = LookupDrafter(4, 4, 1)
    all_of_it, half = (propose(lookup, Prices(lookup=share)) for share in (1.0, 0.5))
    assert half.tokens == all_of_it.tokens
    assert half.reach == pytest.approx({n: r / 2 for n, r in all_of_it.reach.items()})
    price = 0.9 * all_of_it.reach[1]
    assert len(propose(lookup, Prices(price))) > len(propose(lookup, Prices(price, lookup=0.5)))


def test_a_draft_alone_is_not_asked_for_nothing():
    drafter = HybridTreeDrafter(random_model(1, 3), 4, 6)
    assert len(propose(drafter, Prices(model_gain=-0.1))) == 1
    assert len(propose(drafter, Prices(model_gain=0.1))) > 1
