"""Predictions for shorter drafts: exact where they must be, right where acceptance is known."""

from __future__ import annotations

import random

import pytest

from multidraft import SamplingParams, load_model
from multidraft.bench.records import Cell, Record
from multidraft.bench.report.group import Row
from multidraft.bench.report.sums import sums_of
from multidraft.bench.tune.choose import promising
from multidraft.bench.tune.contest import Contest
from multidraft.bench.tune.predict import Prediction, predict
from multidraft.bench.tune.settings import KINDS, PLAIN, at_length
from multidraft.engine.control.costs import Costs
from multidraft.engine.control.curve import Curve

COSTS = Costs(Curve.of({1: 1.0, 11: 2.0}), Curve.of({1: 0.1, 11: 1.1}))
MAX_TOKENS = 40


def record(row, rounds, calls, seconds, first_token=0.0, gap=0.0):
    return Record(
        Cell("pair", "prompts", row.method, row.num_drafts, row.draft_length, 1.0),
        "0",
        0,
        0,
        tokens=sum(emitted for _, _, emitted in rounds),
        rounds=[list(each) for each in rounds],
        calls=[list(each) for each in calls],
        seconds=dict(zip(("draft", "target", "verify", "other"), seconds, strict=True)),
        first_token=first_token,
        gaps=[gap] * (len(rounds) - 1),
    )


def test_a_recording_predicts_itself(pair):
    target, draft = (load_model(name, dtype="float32", slots=1) for name in pair)
    params = SamplingParams(temperature=0.7, max_tokens=MAX_TOKENS, ignore_eos=True)
    contest = Contest(target, draft, [PLAIN, *KINDS], params)
    prompt = [5, 6, 7, 8, 5, 6, 7, 8, 5, 6]
    records = contest.decode(1, prompt, lambda: False, lambda _: None)
    recorded = {Row(r.cell.method, r.cell.num_drafts, r.cell.draft_length): [r] for r in records}
    predicted = predict(recorded, COSTS, MAX_TOKENS)
    assert len(recorded) == 1 + len(KINDS)
    for row, [each] in recorded.items():
        sums = sums_of(each, MAX_TOKENS)
        efficiency = sums["full_tokens"] / sums["full_rounds"]
        assert predicted[row].block_efficiency == pytest.approx(efficiency)
        assert predicted[row].tokens_per_second == pytest.approx(sums["tokens"] / sums["seconds"])
    shorter = [predicted[at_length(KINDS[0], n)].block_efficiency for n in (1, 2, 4, 8)]
    assert shorter == sorted(shorter) and 1.0 < shorter[0] <= 2.0


def test_by_hand():
    kind = Row("block", 1, 8)
    rounds = [(5, 8, 6), (8, 8, 9), (0, 8, 1)]
    calls = [(9, *[1] * 8)] * 3
    # 2 s of prompt; what a round should take by the curves takes twice as long.
    round_seconds = 1.8 + 8 * 0.1
    taken = record(kind, rounds, calls, (0.0, 2.0 + 3 * 2 * round_seconds, 0.3, 0.0), 7.0, gap=5.0)
    at_2 = predict({kind: [taken]}, COSTS, MAX_TOKENS)[at_length(kind, 2)]
    # 6 tokens take 2 rounds of 3 and 9 take 3; the rejected first token takes one.
    assert at_2.block_efficiency == pytest.approx(16 / 6)
    seconds = 2.0 + 6 * (2 * (1.2 + 2 * 0.1) + 0.1)
    assert at_2.tokens_per_second == pytest.approx(16 / seconds)


def test_nodes_of_shorter_drafts():
    """Of independent drafts they are known; of trees they are taken to be spread evenly."""
    for kind, nodes in ((Row("spectr-gbv", 3, 8), 1 + 1 + 2), (Row("hybrid+traversal", 3, 8), 6)):
        rows = (1, 1, 2, 3, 3, 3, 3, 3)
        taken = record(kind, [(0, 8, 1)], [(21, *rows)], (1.0, 1.0, 0.0, 0.0))
        found = predict({kind: [taken]}, COSTS, MAX_TOKENS)
        whole = COSTS.target(21) + sum(map(COSTS.draft, rows))
        part = COSTS.target(nodes) + COSTS.draft(1) + COSTS.draft(1)
        speeds = [found[at_length(kind, n)].tokens_per_second for n in (8, 2)]
        assert speeds[1] / speeds[0] == pytest.approx(whole / part)


@pytest.mark.parametrize("chance", [0.4, 0.7, 0.9])
def test_known_acceptance(chance):
    """Tokens accepted independently: the mean of a round is known for each length."""
    rng, kind = random.Random(0), Row("block", 1, 8)
    records = []
    for _ in range(100):
        rounds = []
        for _ in range(60):
            accepted = 0
            while accepted < 8 and rng.random() < chance:
                accepted += 1
            rounds.append((accepted, 8, accepted + 1))
        records.append(record(kind, rounds, [(9, *[1] * 8)] * 60, (1.0, 1.0, 0.0, 0.0)))
    found = predict({kind: records}, COSTS, 1000)
    for length in (1, 2, 3, 5, 8):
        expected = sum(chance**i for i in range(length + 1))
        assert found[at_length(kind, length)].block_efficiency == pytest.approx(expected, rel=0.02)


def test_what_is_worth_measuring():
    speeds = {
        PLAIN: 10.0,
        Row("block", 1, 4): 12.0,
        Row("block", 1, 3): 11.0,
        Row("hybrid+traversal", 3, 8): 15.0,
        Row("lookup+traversal", 3, 8): 8.5,
        Row("spectr-gbv", 3, 2): 7.0,
    }
    predicted = {row: Prediction(speed, 1.0) for row, speed in speeds.items()}
    assert promising(predicted) == [
        Row("hybrid+traversal", 3, 8),
        Row("block", 1, 4),
        Row("lookup+traversal", 3, 8),
    ]
    poor = {row: each for row, each in predicted.items() if speeds[row] <= 7.0 or row == PLAIN}
    assert promising(poor) == [Row("spectr-gbv", 3, 2)]
