"""Prompt lookup: what it finds, that it is exactly lossless, and what it costs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidraft import Decoder, FunctionModel, SamplingParams
from multidraft.audit.exact import analyse_answer
from multidraft.chance import RandomChance
from multidraft.draft import LookupDrafter
from multidraft.draft.base import DraftRequest
from multidraft.errors import InvalidInput
from tests.draft.laws import EXACT, METHODS, random_model
from tests.draft.test_suffix import few_tokens, many_tokens, periodic, same


def paths(tree):
    """The tokens of every path to a leaf, in the order in which a verifier tries them."""
    if len(tree) == 1:
        return []
    leaves = []

    def walk(node):
        for entry in tree.entries[node]:
            walk(entry.node)
        if not tree.entries[node]:
            leaves.append(tree.path_tokens(node))

    walk(0)
    return leaves


def look_up(drafter, tokens, vocab_size=100, draft_length=None):
    handle = drafter.open(tokens, SamplingParams(), vocab_size)
    length = drafter.draft_length if draft_length is None else draft_length
    tree = drafter.propose([DraftRequest(handle, tokens, length, 0, RandomChance((0,)))])[0]
    drafter.close(handle)
    assert all(entry.proposal is None for entries in tree.entries for entry in entries)
    assert len(tree) - 1 <= drafter.max_nodes
    return tree


# ---------------------------------------------------------------- what it finds


def test_the_continuation_of_the_last_match():
    tree = look_up(LookupDrafter(4, 4), [1, 2, 3, 4, 5, 6, 9, 1, 2, 3])
    assert paths(tree) == [[4, 5, 6, 9]]


def test_several_continuations_frequent_ones_first():
    history = [1, 2, 3, 8, 1, 2, 4, 8, 1, 2, 4, 9, 1, 2]
    tree = look_up(LookupDrafter(1, 8), history)
    assert paths(tree) == [[4], [3]]


def test_the_latest_first_among_equals():
    assert paths(look_up(LookupDrafter(1, 8), [1, 2, 3, 1, 2, 4, 1, 2])) == [[4], [3]]


def test_longer_matches_first():
    history = [7, 1, 2, 5, 0, 1, 2, 6, 0, 1, 2, 6, 7, 1, 2]  # 7 1 2 was followed by 5, 1 2 by 6
    assert paths(look_up(LookupDrafter(1, 8), history)) == [[5], [6]]
    assert paths(look_up(LookupDrafter(1, 1), history)) == [[5]]


def test_a_tree_that_shares_prefixes():
    history = [1, 2, 3, 4, 0, 1, 2, 3, 5, 0, 1, 2]
    assert paths(look_up(LookupDrafter(2, 8), history)) == [[3, 5], [3, 4]]


@pytest.mark.parametrize("tokens", [[1], [1, 2, 3, 4], [1, 2, 1], [3, 1, 2, 1]])
def test_nothing_matches(tokens):
    assert len(look_up(LookupDrafter(4, 8, min_match=2), tokens)) == 1


def test_min_match():
    tokens = [1, 2, 3, 5, 3]
    assert len(look_up(LookupDrafter(4, 8), tokens)) == 1
    assert paths(look_up(LookupDrafter(1, 8, min_match=1), tokens)) == [[5]]


def test_a_corpus():
    corpus = [10, 11, 12, 13, 14, 15]
    assert paths(look_up(LookupDrafter(3, 8, corpus=corpus), [1, 11, 12])) == [[13, 14, 15]]
    # The sequence's own text first; then, from the first token on, what either goes on with.
    tree = look_up(LookupDrafter(1, 8, corpus=corpus), [11, 12, 7, 11, 12])
    assert paths(tree) == [[7], [13]]


@pytest.mark.parametrize("corpus", [[5, 100], [-1, 5]])
def test_a_corpus_of_another_vocabulary(corpus):
    drafter = LookupDrafter(corpus=corpus)
    with pytest.raises(InvalidInput, match=r"0\.\.99"):
        drafter.open([1], SamplingParams(), 100)


@pytest.mark.parametrize("name", ["draft_length", "max_nodes", "min_match"])
def test_counts(name):
    with pytest.raises(InvalidInput, match=name):
        LookupDrafter(**{name: 0})


def test_a_shorter_round_and_none():
    tokens = periodic(30)
    assert look_up(LookupDrafter(8, 12), tokens, draft_length=3).depth == 3
    assert len(look_up(LookupDrafter(8, 12), tokens, draft_length=0)) == 1


# ---------------------------------------------------------------- exactly


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    prompt=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    corpus=st.lists(st.integers(0, 2), max_size=12),
    min_match=st.integers(1, 2),
    sizes=st.sampled_from([(1, 3), (2, 4), (3, 6)]),
    seed=st.integers(0, 2**32),
    zeros=st.sampled_from([0.0, 0.4]),
)
@pytest.mark.parametrize("name", METHODS)
def test_random_histories(name, prompt, corpus, min_match, sizes, seed, zeros):
    """A whole answer of several rounds, each looking up what the earlier ones emitted."""
    target = random_model(seed, 3, zeros)
    drafter = LookupDrafter(*sizes, min_match, corpus)
    params = SamplingParams(max_tokens=4)
    assert analyse_answer(name, target, drafter, prompt, params).max_error < EXACT


@pytest.mark.parametrize("name", METHODS)
def test_it_fires_and_is_lossless(name):
    target = FunctionModel(3, lambda context: [[0.1, 0.6, 0.3], [0.3, 0.0, 0.7]][len(context) % 2])
    drafter, prompt = LookupDrafter(3, 8), [0, 1, 2, 0, 1, 2, 0, 1]
    report = analyse_answer(name, target, drafter, prompt, SamplingParams(max_tokens=4))
    assert report.max_error < EXACT
    assert report.expected_accepted > 0.4


# ---------------------------------------------------------------- in the engine


def test_greedy_output_is_the_plain_one():
    target = random_model(11, 5)
    params = SamplingParams(temperature=0.0, max_tokens=60)
    prompts = [[0, 1, 2, 0, 1, 2, 0, 1], [3], [4, 4, 4]]
    plain = Decoder(target).generate(prompts, params)
    for name in METHODS:
        decoder = Decoder(target, LookupDrafter(4, 8, 1), name)
        results = decoder.generate(prompts, params)
        assert [r.token_ids for r in results] == [r.token_ids for r in plain]
        assert not decoder.engine.drafter._histories, "every sequence is forgotten"


def test_a_repetitive_text_needs_fewer_calls():
    def law(context):
        return [0.9 if token == (context[-1] + 1) % 8 else 0.1 / 7 for token in range(8)]

    decoder = Decoder(FunctionModel(8, law), LookupDrafter())
    result = decoder.generate([0], SamplingParams(max_tokens=300, seed=1))[0]
    assert result.stats.block_efficiency > 3


@pytest.mark.parametrize("text", [same, periodic, few_tokens, many_tokens])
def test_a_round_costs_the_same_after_a_long_text(text):
    def steps(n):
        drafter, tokens = LookupDrafter(), text(n)
        handle = drafter.open([0], SamplingParams(), 5000)
        request = DraftRequest(handle, tokens, 8, 0, RandomChance((0,)))
        drafter.propose([request])
        automaton = drafter._histories[handle].automaton
        before = automaton.steps
        drafter.propose([request])  # nothing new to add: the look-up alone
        return automaton.steps - before

    short, long = steps(1_000), steps(16_000)
    assert long <= max(2 * short, 200)
    assert long <= 13 * 16 * 12
