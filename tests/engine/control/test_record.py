"""What is made of past rounds: worked out by hand."""

from __future__ import annotations

import pytest

from multidraft.engine.control.lengths import acceptance, best_length
from multidraft.engine.control.record import Record, lookup_reliance, reliance, value


def after(rounds) -> Record:
    """Rounds as (tokens added, seconds longer, tokens expected by depth, tokens accepted)."""
    record = Record()
    for tokens, seconds, expected, accepted in rounds:
        record.drafting.fade(True)
        record.drafting.add(tokens, seconds)
        record.drafting.add_depths(expected, accepted)
    return record


def test_value_of_a_round():
    own = after([(2, 1.0, [], 0), (4, 3.0, [], 0)])
    rounds, tokens, seconds = 0.9 + 1, 0.9 * 2 + 4, 0.9 * 1 + 3
    # A quarter of a token is held against them.
    assert value(own, Record(), 0.5) == pytest.approx((tokens - 0.5 * seconds - 0.25) / rounds)
    assert value(Record(), Record(), 0.5) == 0.0


def test_other_sequences_count_for_two_rounds():
    shared = after([(1, 1.0, [], 0)] * 50)  # nearly ten rounds, all alike
    assert value(Record(), shared, 0.5) == pytest.approx(0.5 - 0.25 / 2)
    own = after([(4, 1.0, [], 0)])
    assert value(own, shared, 0.0) == pytest.approx((4 + 2 * 1 - 0.25) / (1 + 2))


def test_what_is_not_drafted_fades():
    record = after([(3, 1.0, [0.5], 1)])
    for _ in range(10):
        record.drafting.fade(False)
    assert record.drafting.rounds == pytest.approx(0.98**10)
    assert record.drafting.accepted == [1.0]  # of depths only drafting rounds tell


def test_reliance():
    sure = after([(1, 1.0, [0.5, 0.25], 2)] * 200)
    found = [reliance(sure, Record(), depth) for depth in (1, 2, 3)]
    # Twice and four times as many as expected; of a depth never tried, as of all together.
    assert found == pytest.approx([2, 4, 2.7], rel=0.25)  # two tokens are believed
    vain = after([(0, 1.0, [0.9], 0)] * 200)
    assert reliance(vain, Record(), 1) < 0.15
    assert reliance(Record(), Record(), 3) == 1.0


def test_deep_drafts_that_only_begin_well_are_not_relied_on():
    record = after([(2, 1.0, [0.9] * 8, 2)] * 20)
    assert reliance(record, Record(), 2) > 0.9
    assert reliance(record, Record(), 8) < 0.2


def test_one_miss_counts_once():
    """However deep the draft was."""
    record = after([(0, 1.0, [0.9] * 8, 0)])
    assert reliance(record, Record(), 8) > 0.1
    right = after([(8, 1.0, [0.9] * 8, 8), (0, 1.0, [0.9] * 8, 0)])
    assert reliance(right, Record(), 8) > 0.5


def test_reliance_on_others_drafts():
    sure = after([(1, 1.0, [0.5, 0.25], 2)] * 200)
    vain = after([(0, 1.0, [0.9], 0)] * 200)
    assert reliance(Record(), vain, 1) < reliance(Record(), sure, 1)


def test_reliance_on_lookup():
    record = Record()
    assert lookup_reliance(record, Record()) == 1.0
    for _ in range(100):
        record.add_lookup(2.0, 1)
    assert lookup_reliance(record, Record()) == pytest.approx(0.5, abs=0.06)
    assert 0.5 < lookup_reliance(Record(), record) < 1.0
    for _ in range(500):
        record.add_lookup(0.0, 0)
    assert lookup_reliance(record, Record()) > 0.99  # tried again
    record.add_lookup(1.0, 9)
    assert lookup_reliance(record, Record()) == 1.0


def test_acceptance_by_depth():
    # Of 100 drafts of three, all accept the first token, half the second, none the third.
    record = after([(1, 1.0, [1, 1, 1], 2), (1, 1.0, [1, 1, 1], 1)] * 100)
    found = [acceptance(record, Record(), depth) for depth in (1, 2, 3, 4)]
    assert found[0] == pytest.approx(1.0, abs=0.05)
    assert found[1] == pytest.approx(0.5, abs=0.07)
    assert found[2] < 0.15 and found[3] <= found[2]


def test_best_length():
    record = after([(4, 1.0, [1] * 6, 6)] * 50 + [(1, 1.0, [1] * 6, 3)] * 50)
    length, gain = best_length(record, Record(), 6, price=0.3, carried=0.0)
    assert length == 3 and gain > 0
    assert best_length(record, Record(), 2, price=0.3, carried=0.0)[0] == 2
    assert best_length(record, Record(), 6, price=2.0, carried=0.0) == (0, 0.0)
    # A draft step that is paid anyway may as well be used.
    assert best_length(record, Record(), 6, price=1.2, carried=1.2)[0] > 0
