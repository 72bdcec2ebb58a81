"""What is made of past rounds: worked out by hand."""

from __future__ import annotations

import math

import pytest

from multidraft.draft.base import sureness
from multidraft.engine.control.lengths import acceptance, best_length
from multidraft.engine.control.record import Record, lookup_reliance, reliances, value


def after(rounds) -> Record:
    """Rounds as (tokens added, seconds longer, calls), and calls as what is expected of them and
    whether a token was accepted."""
    record = Record()
    for tokens, seconds, calls in rounds:
        record.drafting.fade(True)
        record.drafting.add(tokens, seconds)
        for expected, accepted in calls:
            record.drafting.add_call(sureness(expected), expected, accepted)
    return record


def tried(*chains) -> Record:
    """Independent drafts of a length, of which some tokens are accepted."""
    record = Record()
    for length, accepted in chains:
        record.drafting.fade(True)
        for depth in range(min(length, accepted + 1)):
            record.drafting.add_call(0, 1.0, accepted > depth)
    return record


def test_value_of_a_round():
    own = after([(2, 1.0, []), (4, 3.0, [])])
    rounds, tokens, seconds = 0.9 + 1, 0.9 * 2 + 4, 0.9 * 1 + 3
    # A quarter of a token is held against them.
    expected = pytest.approx((tokens - 0.5 * seconds - 0.25) / rounds)
    assert value(own, Record(), 0.5, False) == (0.0, expected)
    assert value(Record(), Record(), 0.5, True) == (0.0, 0.0)


def test_other_sequences_count_for_two_rounds():
    shared = after([(1, 1.0, [])] * 50)  # nearly ten rounds, all alike
    assert value(Record(), shared, 0.5, False)[1] == pytest.approx(0.5)  # no doubt of its own
    own = after([(4, 1.0, [])])
    assert value(own, shared, 0.0, False)[1] == pytest.approx((4 + 2 * 1 - 0.25) / (1 + 2))


def test_what_an_unsure_draft_begins_is_left_out_where_it_loses():
    own = Record()
    for reach, tokens, seconds in [(0.995, 4, 3.0), (0.98, 0, 2.0), (0.5, 3, 2.0), (0.3, 0, 2.0)]:
        own.drafting.rounds += 1.0
        own.drafting.tokens += tokens
        own.drafting.seconds += seconds + 0.5  # of asking
        own.drafting.add_start(reach, tokens, seconds)
    # At a speed of 1: +1, -2, +1, -2 tokens. Together the last two have lost 1, the last three 3.
    sure, worth = value(own, Record(), 1.0, True)
    assert sure == 0.99
    assert worth == pytest.approx((4 - 3.0 - 4 * 0.5 - 0.25) / 4)
    assert value(own, Record(), 1.0, False) == (0.0, pytest.approx((7 - 11.0 - 0.25) / 4))
    assert value(own, Record(), 0.1, True)[0] == 0.0  # not a whole token is lost
    assert value(own, Record(), 3.0, True)[0] == math.inf


def test_what_is_not_drafted_fades():
    record = after([(3, 1.0, [(1.0, True)])])
    for _ in range(10):
        record.drafting.fade(False)
    assert record.drafting.rounds == pytest.approx(0.98**10)
    assert record.drafting.accepted == [1.0]  # of calls only drafting rounds tell


def test_reliance():
    # Surely right where it is sure, in one of four where it is not.
    record = after([(1, 1.0, [(1.0, True), (0.5, i % 4 == 0)]) for i in range(400)])
    found = reliances(record, Record())
    assert found[sureness(1.0)] == pytest.approx(1.0, abs=0.05)
    assert found[sureness(0.5)] == pytest.approx(0.5, abs=0.15)
    # Where it was never asked, little less than where it is surer, else as it says.
    assert 0.7 < found[sureness(0.9)] < 1.0
    assert found[sureness(0.1)] < found[sureness(0.5)]
    assert reliances(Record(), Record())[0] == 0.9


def test_a_draft_that_knows_less_than_the_target_may_be_relied_on_more_than_it_says():
    """As at temperature 0: what is likeliest for the draft is what the target takes."""
    record = after([(1, 1.0, [(0.5, True)])] * 100)
    assert reliances(record, Record())[sureness(0.5)] > 1.5


def test_reliance_on_others_drafts():
    right, wrong = after([(1, 1.0, [(0.9, True)])] * 200), after([(0, 1.0, [(0.9, False)])] * 200)
    kind = sureness(0.9)
    assert reliances(Record(), wrong)[kind] < 0.3 < 0.9 < reliances(Record(), right)[kind]
    # Its own soon count for more.
    assert reliances(right, wrong)[kind] > 0.5


def test_classes_of_sureness():
    assert [sureness(reach) for reach in (1.5, 1.0, 0.99, 0.98, 0.4, 0.0)] == [0, 0, 0, 1, 6, 7]
    assert len(reliances(Record(), Record())) == 8


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


def test_acceptance():
    # Of two drafts of three tokens, one is accepted up to the second, one up to the first.
    record = tried(*[(3, 2), (3, 1)] * 100)
    assert acceptance(record, Record()) == pytest.approx(3 / 5, abs=0.05)
    assert acceptance(Record(), Record()) == pytest.approx(0.7)
    assert 0.6 < acceptance(Record(), record) < 0.7


def test_best_length():
    record = tried(*[(6, 3), (6, 2)] * 50)  # 5 of 7 tokens
    length, gain = best_length(record, Record(), 6, price=lambda _: 0.3, carried=0.0)
    assert length == 3 and gain > 0
    assert best_length(record, Record(), 2, price=lambda _: 0.3, carried=0.0)[0] == 2
    assert best_length(record, Record(), 6, price=lambda _: 2.0, carried=0.0) == (0, 0.0)
    dear_after_two = best_length(
        record, Record(), 6, price=lambda n: 0.3 if n < 3 else 9.0, carried=0
    )
    assert dear_after_two[0] == 2
    # A draft step that is paid anyway may as well be used.
    assert best_length(record, Record(), 6, price=lambda _: 1.2, carried=1.2)[0] > 0
