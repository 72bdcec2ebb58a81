"""What calls cost: measured, kept, and brought up to date."""

from __future__ import annotations

import json

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from multidraft.engine.control import costs as costs_module
from multidraft.engine.control.costs import Costs, costs_of, measure
from multidraft.engine.control.curve import Curve
from multidraft.engine.control.paced import Paced
from multidraft.models import TransformersModel
from tests.engine.markov import markov, random_pair


def test_a_curve_goes_through_its_points_and_on():
    curve = Curve.of({1: 1.0, 4: 1.6, 8: 3.2})
    assert curve(1) == 1.0 and curve(2) == pytest.approx(1.2) and curve(0) == 1.0
    assert curve(12) == pytest.approx(4.8)
    assert Curve.of({1: 2.0})(50) == 2.0


def test_the_machine_gets_slower():
    costs = Costs(Curve.of({1: 1.0, 8: 2.0}), Curve.of({1: 0.5}))
    assert costs.target(8) == pytest.approx(2.0) and costs.draft(1) == pytest.approx(0.5)
    for _ in range(100):
        costs.observe(1, 8, 4.0, [1, 1], 2.0)
    assert costs.target(8) == pytest.approx(4.0, rel=0.02)
    assert costs.target(1) == pytest.approx(2.0, rel=0.02)
    assert costs.draft(1) == pytest.approx(1.0, rel=0.02)
    costs.observe(1, 8, 400.0, [], 0.0)  # one hiccup
    assert costs.target(8) < 4.4


def test_sizes_have_paces_of_their_own():
    """Where arithmetic has become slower and memory has not."""
    paced = Paced(Curve.of({1: 1.0, 4: 1.0, 16: 2.0, 32: 4.0}))
    assert [share for _, share in paced._curve.shares(10)] == pytest.approx([0.5, 0.5])
    for _ in range(200):
        paced.observe([4], 1.0)
        paced.observe([16], 3.0)
    assert paced(4) == pytest.approx(1.0, rel=0.05)
    assert paced(16) == pytest.approx(3.0, rel=0.05)
    unseen = paced(32)
    for _ in range(150):  # the whole machine has
        paced.observe([4, 16], 8.0)
    assert paced(4) + paced(16) == pytest.approx(8.0, rel=0.02)
    assert paced(32) == pytest.approx(2.0 * unseen, rel=0.1)


def test_measured_on_a_model():
    model = markov(random_pair(3, 9, 0.5).target, slots=1)
    points = measure(model).to_dict()
    assert list(points) == [1, 2, 4, 8, 16, 32, 64]
    assert all(seconds > 0 for seconds in points.values())
    model.open()  # its slot is free again


@pytest.mark.parametrize(
    ("row", "measured", "most"),
    [(2.0, [1, 16], 73), (0.1, [1, 2, 4, 8, 16, 32], 25)],
)
def test_a_slow_model_is_measured_where_positions_cost(monkeypatch, row, measured, most):
    """One and sixteen however long it takes: else positions would seem to be free. Others for as
    long as twenty steps; a call is timed once besides the first of its size."""
    now = [0.0]

    def timed(model, slot, rows):
        now[0] += 1.0 + row * rows
        return 1.0 + row * rows

    monkeypatch.setattr(costs_module, "_timed", timed)
    monkeypatch.setattr(costs_module.time, "perf_counter", lambda: now[0])
    curve = measure(markov(random_pair(3, 9, 0.5).target, slots=1))
    assert list(curve.to_dict()) == measured
    assert curve(9) == pytest.approx(1.0 + 9 * row) and curve(24) == pytest.approx(1.0 + 24 * row)
    assert now[0] < most


def tiny_model(slots: int = 1) -> TransformersModel:
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=256,
    )
    return TransformersModel(LlamaForCausalLM(config), slots=slots)


def test_kept_for_models_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(costs_module, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(costs_module, "_timed", lambda model, slot, rows: 0.1 * rows)
    model = tiny_model()
    assert costs_of(model, None).target(16) == pytest.approx(1.6)
    (file,) = (tmp_path / "costs").iterdir()
    assert json.loads(file.read_text())["16"] == pytest.approx(1.6)
    # The shape is read, the scale measured again.
    file.write_text(json.dumps({1: 0.12, 2: 6.0}))
    assert costs_of(model, model).draft(2) == pytest.approx(5.0)
    file.write_text(json.dumps({1: 5.0, 2: 6.0}))  # measured at a bad moment
    assert costs_of(model, model).draft(2) == pytest.approx(0.2)
    assert json.loads(file.read_text())["1"] == pytest.approx(0.1)
    file.write_text("half a fi")
    assert costs_of(model, None).target(1) == pytest.approx(0.1)
    costs_of(tiny_model(slots=2), None)
    assert len(list((tmp_path / "costs").iterdir())) == 2


def test_a_plain_step_has_an_estimate_of_its_own():
    costs = Costs(Curve.of({1: 1.0, 8: 2.0}), None)
    for _ in range(30):
        costs.observe(1, 8, 2.0, [], 0.0)
        costs.observe(1, 1, 0.8, [], 0.0)
    assert costs.plain(1) == pytest.approx(0.8, rel=0.02)
    for _ in range(100):  # all calls of a machine that gets slower are slower
        costs.observe(1, 8, 4.0, [], 0.0)
    assert costs.plain(1) == pytest.approx(1.6, rel=0.1)


def test_plain_steps_tell_the_pace_of_other_calls():
    """Once: a machine that halves its speed is not taken for one of a quarter."""
    costs = Costs(Curve.of({1: 1.0, 8: 2.0}), Curve.constant(0.3))
    for seconds in (1.5, *[1.0] * 30):  # one pause
        costs.observe(1, 1, seconds, [], 0.0)
    assert (costs.target(8), costs.draft(1)) == pytest.approx((2.0, 0.3), rel=0.02)
    for _ in range(100):
        costs.observe(1, 1, 2.0, [], 0.0)
    assert (costs.target(8), costs.draft(1)) == pytest.approx((4.0, 0.6), rel=0.02)
    for _ in range(30):
        costs.observe(1, 8, 4.0, [1], 0.6)
    assert (costs.plain(1), costs.target(8)) == pytest.approx((2.0, 4.0), rel=0.02)
