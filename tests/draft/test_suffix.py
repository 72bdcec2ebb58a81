"""The suffix automaton against a search by hand, and what a token costs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidraft.draft.suffix import NOTHING, START, SuffixAutomaton

texts = st.lists(st.integers(0, 2), max_size=16)  # no chain of suffixes is longer than followed


def ends(text, part):
    """Where ``part`` ends in ``text``, the earliest first."""
    n = len(part)
    return [i for i in range(n, len(text) + 1) if text[i - n : i] == part]


@settings(max_examples=300, deadline=None)
@given(text=texts)
def test_suffixes_are_those_that_end_elsewhere(text):
    """Each on the chain is the longest suffix that ends at more places than the one before."""
    automaton = SuffixAutomaton(text)
    assert len(automaton) == len(text)
    expected, places = [], 0
    for length in range(len(text), 0, -1):
        if (found := len(ends(text, text[-length:]))) > places:
            expected.append(length)
            places = found
    assert [length for length, _ in automaton.suffixes(automaton.whole)] == expected


@settings(max_examples=300, deadline=None)
@given(text=texts, most=st.integers(1, 3))
def test_continuations_counted_and_latest_first(text, most):
    automaton = SuffixAutomaton(text)
    for length, state in automaton.suffixes(automaton.whole):
        suffix = text[-length:]
        following = {text[i]: i for i in ends(text, suffix) if i < len(text)}
        latest_first = sorted(following, key=lambda token: -following[token])
        expected = [(token, len(ends(text, [*suffix, token]))) for token in latest_first]
        assert automaton.continuations(state, most) == expected[:most]


@settings(max_examples=300, deadline=None)
@given(text=texts, pattern=texts)
def test_after_is_the_longest_known_suffix(text, pattern):
    automaton, match = SuffixAutomaton(text), NOTHING
    for i, token in enumerate(pattern, start=1):
        match = automaton.after(match, token)
        longest = max(n for n in range(i + 1) if n == 0 or ends(text, pattern[i - n : i]))
        assert match.length == longest
        assert (match.state == START) == (longest == 0)


def same(n):
    return [0] * n


def periodic(n):
    return [i % 7 for i in range(n)]


def few_tokens(n):
    return [random.Random(i).randrange(2) for i in range(n)]


def many_tokens(n):
    return [int(random.Random(i).paretovariate(0.5)) % 5000 for i in range(n)]


def fibonacci(n):
    a, b = [0], [0, 1]
    while len(b) < n:
        a, b = b, b + a
    return b[:n]


@pytest.mark.parametrize("text", [same, periodic, few_tokens, many_tokens, fibonacci])
def test_a_token_costs_the_same_in_a_long_text(text):
    short, long = (SuffixAutomaton(text(n)).steps / n for n in (2_000, 16_000))
    assert long < 1.3 * short
    assert long < 50
