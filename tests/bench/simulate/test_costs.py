"""Cost tables: reading, refusing, interpolating, and those from sizes."""

from __future__ import annotations

import json

import pytest

from multidraft.bench.simulate.costs import make_costs, read_costs, write_costs
from multidraft.bench.simulate.roofline import BANDWIDTH, FREE_POSITIONS, PEAK, costs_of_sizes
from multidraft.engine.control.curve import Curve
from multidraft.errors import InvalidInput

TABLE = """
target: {1: 1.0, 5: 1.4, 9: 3.0}
draft: 0.25
verify: {ar: 0.0, token: {1: 0.1, 5: 0.3}}
prefill: {target: {100: 2}}
"""


@pytest.mark.parametrize(
    ("count", "cost"),
    [(0.5, 1), (1, 1), (2, 1.1), (5, 1.4), (7, 2.2), (9, 3), (11, 3.8), (13, 4.6)],
)
def test_straight_lines(count, cost):
    assert Curve.of({9: 3.0, 1: 1.0, 5: 1.4})(count) == pytest.approx(cost)


def test_beyond_the_last_point_a_cost_never_falls():
    assert Curve.of({1: 2.0, 2: 1.0})(3) == 1.0
    assert Curve.of({4: 2.0})(1) == Curve.constant(2.0)(1000) == 2.0


def test_read(tmp_path):
    path = tmp_path / "costs.yaml"
    path.write_text(TABLE)
    costs = read_costs(path)
    assert costs.target(3) == pytest.approx(1.2)
    assert costs.step()(7) == 0.25
    assert costs.of_verifier("verify", "token")(3) == pytest.approx(0.2)
    assert costs.of_verifier("other", "anything")(3) == 0.0
    assert costs.prefill_target(40) == 2 and costs.prefill_draft(40) == 0
    with pytest.raises(InvalidInput, match=r"verify has no cost for 'spectr'; add it"):
        costs.of_verifier("verify", "spectr")


def test_written_and_read_again(tmp_path):
    path = tmp_path / "costs.yaml"
    path.write_text(TABLE)
    costs = read_costs(path)
    write_costs(costs, tmp_path / "again.yaml", "a machine\nof ours")
    assert (tmp_path / "again.yaml").read_text().startswith("# a machine\n# of ours\ntarget:\n")
    assert read_costs(tmp_path / "again.yaml") == costs
    as_json = tmp_path / "costs.json"
    as_json.write_text(json.dumps(costs.to_dict()))
    assert read_costs(as_json) == costs
    with pytest.raises(InvalidInput, match="Cannot write"):
        write_costs(costs, tmp_path / "nowhere" / "costs.yaml", "")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"draft": 1}, "'target' is missing"),
        ({"target": 1, "drafts": 1}, "unknown key 'drafts'; did you mean 'draft'"),
        ({"target": 1, "prefill": 3}, "prefill must have the keys target and draft"),
        ({"target": 1, "prefill": {"targets": 3}}, "prefill: unknown key 'targets'"),
        ({"target": "fast"}, "target: 'fast' is no cost"),
        ({"target": -1}, "target: -1 is no cost"),
        ({"target": float("nan")}, "target: nan is no cost"),
        ({"target": True}, "target: True is no cost"),
        ({"target": []}, r"target: \[\] is no cost"),
        ({"target": {}}, r"target: {} is no cost"),
        ({"target": 0}, "must cost something"),
        ({"target": {0: 1}}, "target: 0 is no count"),
        ({"target": {1: 1, "many": 2}}, "target: 'many' is no count"),
        ({"target": {1: 1, "1": 2}}, "target: '1' is there twice"),
        ({"target": {1: None}}, "target: None is no cost"),
        ({"target": 1, "verify": {"token": "x"}}, "verify of token: 'x' is no cost"),
    ],
)
def test_refused(table, message):
    with pytest.raises(InvalidInput, match=f"^costs.yaml: .*{message}|^costs.yaml: {message}"):
        make_costs(table, "costs.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "line 1: not YAML"),
        ("- 1", "a cost table is keys and values, such as 'target:"),
        (None, "Cannot read the cost table"),
    ],
)
def test_file_refused(tmp_path, text, message):
    path = tmp_path / "costs.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        read_costs(path)


def test_roofline():
    costs = costs_of_sizes("33b:1.3")
    step = 2 * 33e9 / BANDWIDTH
    assert costs.target(1) == costs.target(150) == pytest.approx(step)
    # Beyond, every position costs two operations a weight.
    for positions in (160, 306, 1000):
        assert costs.target(positions) == pytest.approx(2 * 33e9 * positions / PEAK)
    assert costs.step()(1) / costs.target(1) == pytest.approx(1.3 / 33)
    assert costs.prefill_target(1000) == costs.target(1000)
    assert 152 < FREE_POSITIONS < 154


@pytest.mark.parametrize("text", ["33", "33:0", "33:1.3:1", "big:small", "inf:1", "-3:1"])
def test_sizes_refused(text):
    with pytest.raises(InvalidInput, match=r"such as 33:1\.3"):
        costs_of_sizes(text)
