"""Predicted times: by hand on small records, and on acceptance that is known."""

from __future__ import annotations

import math

import pytest

from multidraft.bench.records import Cell, Record
from multidraft.bench.report.load import load_run
from multidraft.bench.simulate.costs import make_costs
from multidraft.bench.simulate.predict import predict
from multidraft.bench.simulate.roofline import costs_of_sizes
from multidraft.bench.simulate.tables import Predicted
from multidraft.errors import InvalidInput
from tests.bench.report.synthetic import MAX_TOKENS, write_run

COSTS = make_costs(
    {
        "target": {1: 1.0, 11: 11.0},
        "draft": {1: 0.5, 2: 0.75},
        "verify": {"ar": 0.1, "token": 0.2, "spectr-gbv": 0.3, "traversal": 0.4},
        "other": {1: 0.05, 11: 1.05},
        "prefill": {"target": {1: 0.1, 101: 10.1}, "draft": 1.0},
    },
    "costs.yaml",
)


def record(method, k, length, rounds, calls=(), batch=1):
    return Record(
        Cell("pair", "gsm8k", method, k, length, 1.0, batch),
        "a",
        0,
        0,
        prompt_tokens=11,
        tokens=sum(emitted for _, _, emitted in rounds),
        rounds=[list(each) for each in rounds],
        calls=[list(each) for each in calls],
        seconds={"draft": 9.0, "target": 9.0, "verify": 9.0, "other": 9.0},
    )


PLAIN = record("ar", 0, 0, [(0, 0, 1)] * 6)


def seconds(prediction, method):
    (found,) = [r.seconds for r in prediction.run.records if r.cell.method == method]
    return {phase: pytest.approx(value) for phase, value in found.items()}


@pytest.fixture
def predicted(tmp_path):
    def command(*records):
        return predict(load_run(write_run(tmp_path / "run", records)), COSTS)

    return command


def test_by_hand(predicted):
    rounds = [(2, 2, 3), (1, 2, 2), (0, 0, 1)]
    prediction = predicted(
        PLAIN,
        record("token", 1, 2, rounds),
        record("spectr-gbv", 2, 2, rounds, [(4, 1, 2), (5, 1, 2), (1,)]),
        record("lookup+traversal", 2, 2, rounds, [(4,), (1,), (1,)]),
        record("auto", 0, 0, rounds, [(4, 1, 2), (5, 1, 2), (1,)]),
    )
    assert seconds(prediction, "ar") == {
        "draft": 0.0,
        "target": 6 * 1.0 + 1.0,
        "verify": 6 * 0.1,
        "other": 6 * 0.05,
    }
    assert seconds(prediction, "token") == {
        "draft": 4 * 0.5 + 1.0,
        "target": 3.0 + 3.0 + 1.0 + 1.0,
        "verify": 3 * 0.2,
        "other": 0.25 + 0.25 + 0.05,
    }
    assert seconds(prediction, "spectr-gbv") == {
        "draft": 2 * (0.5 + 0.75) + 1.0,
        "target": 4.0 + 5.0 + 1.0 + 1.0,
        "verify": 3 * 0.3,
        "other": 0.35 + 0.45 + 0.05,
    }
    assert seconds(prediction, "lookup+traversal") == {  # no draft model, no prompt to read
        "draft": 0.0,
        "target": 4.0 + 1.0 + 1.0 + 1.0,
        "verify": 3 * 0.4,
        "other": 0.35 + 0.05 + 0.05,
    }
    assert seconds(prediction, "auto") == {  # verified by the default method
        "draft": 2 * (0.5 + 0.75) + 1.0,
        "target": 4.0 + 5.0 + 1.0 + 1.0,
        "verify": 3 * 0.4,
        "other": 0.35 + 0.45 + 0.05,
    }
    assert prediction.notes == []
    (table,) = Predicted(prediction, "a machine").main
    rows = {row["method"]: row for row in table.rows}
    plain, token = 7.0 + 0.6 + 0.3, 3.0 + 8.0 + 0.6 + 0.55
    assert rows["token"]["speed_up"].value == pytest.approx(plain / token)
    assert rows["token"]["draft_share"].value == pytest.approx(3.0 / token)
    assert rows["token"]["block_efficiency"].value == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("method", "target", "draft"),
    [("spectr-gbv", 7.0, 0.5 + 2 * 1.0), ("hybrid+traversal", 7.0, 2.5), ("token", 4.0, 1.5)],
)
def test_positions_of_drafts_that_share_nothing(predicted, method, target, draft):
    drafts = 1 if method == "token" else 2
    costs = make_costs({**COSTS.to_dict(), "draft": {1: 0.5, 2: 1.0}}, "costs.yaml")
    prediction = predicted(PLAIN, record(method, drafts, 3, [(0, 3, 1)] * 2))
    run = prediction.run
    (found,) = [r for r in predict(run, costs).run.records if r.cell.method == method]
    assert found.seconds["target"] == pytest.approx(2 * target + 1.0)
    assert found.seconds["draft"] == pytest.approx(2 * draft + 1.0)
    sure = method == "token"
    assert prediction.notes == [] if sure else "In 25% of the rounds" in prediction.notes[0]


def test_plain_decoding_is_added_where_it_lacks(predicted):
    prediction = predicted(
        record("token", 1, 2, [(2, 2, 3)] * 2), record("spectr-gbv", 2, 2, [(1, 2, 2)] * 2)
    )
    (added,) = [r for r in prediction.run.records if r.cell.method == "ar"]
    assert (added.tokens, added.rounds, added.example) == (5, [[0, 0, 1]] * 5, "a")
    assert added.seconds["target"] == pytest.approx(5 + 1.0)


def test_batches_are_decoded_one_by_one(predicted):
    rounds = [(1, 1, 2)] * 3
    several = predicted(
        record("ar", 0, 0, [(0, 0, 1)] * 6, batch=8), record("token", 1, 1, rounds, batch=8)
    )
    one = predicted(PLAIN, record("token", 1, 1, rounds))
    assert several.run.records == one.run.records


def test_what_is_assumed_is_said(predicted):
    peer = record("transformers:plain", 0, 0, [(0, 0, 6)])
    peer.rounds.clear()
    wide = record("traversal", 12, 1, [(0, 1, 1)], [(13, 3)])
    left_out, target, draft = predicted(PLAIN, peer, wide).notes
    assert left_out == "Left out, as their rounds are not recorded: transformers:plain."
    assert target.startswith("The target's costs are given up to 11 positions") and "13" in target
    assert draft.startswith("The draft's costs are given up to 2 positions")


def test_refused(predicted, tmp_path):
    with pytest.raises(InvalidInput, match="no round with a draft"):
        predicted(PLAIN)
    run = load_run(write_run(tmp_path / "other", [PLAIN, record("token", 1, 1, [(0, 1, 1)])]))
    with pytest.raises(InvalidInput, match="'draft' is missing"):
        predict(run, make_costs({"target": 1}, "costs.yaml"))


@pytest.fixture(scope="module")
def geometric(tmp_path_factory):
    """A run whose draft tokens are accepted with 0.93 each, as the published block efficiency of
    8.59 at L = 12 needs."""
    records = []
    for length in range(4, 33, 4):
        quantiles = ((i + 0.5) / 2000 for i in range(2000))
        accepted = [min(length, math.floor(math.log(q) / math.log(0.93))) for q in quantiles]
        rounds = [(n, length, n + 1) for n in accepted]
        records.append(record("spectr-gbv", 3, length, rounds))
    path = write_run(tmp_path_factory.mktemp("geometric"), records)
    manifest = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(manifest.replace(f": {MAX_TOKENS}", ": 1000000"))
    return load_run(path)


@pytest.mark.parametrize(
    ("sizes", "ratio", "best"),
    [("33:1.3", 1.3 / 33, 20), ("6.7:1.3", 1.3 / 6.7, 8), ("13:7", 7 / 13, 4)],
)
def test_speed_up_peaks_while_block_efficiency_rises(geometric, sizes, ratio, best):
    """From sizes alone; for 33B and 1.3B the peak is where it was found, near 20."""
    predicted = Predicted(predict(geometric, costs_of_sizes(sizes)), "A100")
    rows = {row["draft_length"]: row for row in predicted.main[0].rows if row["num_drafts"]}
    assert len(rows) == 8
    for length, row in rows.items():
        efficiency = (1 - 0.93 ** (length + 1)) / (1 - 0.93)
        assert row["block_efficiency"].value == pytest.approx(efficiency, rel=0.002)
        time = 1 + length * ratio
        assert row["speed_up"].value == pytest.approx(efficiency / time, rel=0.005)
    efficiencies = [row["block_efficiency"].value for row in rows.values()]
    assert efficiencies == sorted(efficiencies)
    (peak,) = predicted.to_dict()["peaks"]
    assert peak["draft_length"] == best
    block, speed = predicted.curves
    assert [row[f"draft_length={best}"].marked for row in speed.rows] == [True]
    assert not any(row[f"draft_length={best}"].marked for row in block.rows)
