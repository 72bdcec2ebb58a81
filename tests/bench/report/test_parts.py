"""Ablations, latency and the published figures."""

from __future__ import annotations

import math

import pytest

from multidraft.bench.records import Cell, Record
from multidraft.bench.report import published
from multidraft.bench.report.ablation import find_ablations
from multidraft.bench.report.group import Row, make_groups
from multidraft.bench.report.latency import latency
from multidraft.bench.report.load import load_run
from multidraft.bench.report.measures import Measures
from multidraft.bench.report.tables import beside_published
from tests.bench.report.synthetic import run_records, write_run

METHODS = {"ar": 0.0, "token": 0.6, "spectr-gbv": 0.75}


def _measures(path, prompts=8, **grid):
    run = load_run(write_run(path, run_records(METHODS, prompts=prompts, **grid)))
    return [Measures(group) for group in make_groups(run)]


def test_no_ablation_without_a_grid(tmp_path):
    assert find_ablations(_measures(tmp_path)) == []


def test_ablations_along_each_axis(tmp_path):
    grid = {"lengths": (2, 4, 16), "drafts": (1, 3), "temperatures": (0.4, 1.0)}
    found = find_ablations(_measures(tmp_path, **grid))
    by_axis = {axis: [a for a in found if a.axis == axis] for axis in {a.axis for a in found}}
    # Each setting of the other two axes makes one.
    assert {axis: len(part) for axis, part in by_axis.items()} == {
        "draft_length": 2 * 2,
        "num_drafts": 3 * 2,
        "temperature": 3 * 2,
    }
    along = by_axis["draft_length"][-1]
    assert (along.values, along.fixed) == ((2, 4, 16), {"num_drafts": 3, "temperature": 1.0})
    assert [curve.method for curve in along.curves] == ["token", "spectr-gbv"]
    peak, share = along.curves[0].peak()
    assert along.curves[0].points[peak].draft_length < 16 and 0.3 < share <= 1.0
    assert not math.isnan(share)
    # A method of one draft is level along K.
    assert [p.method for p in by_axis["num_drafts"][0].level] == ["token"]


def test_one_prompt_says_nothing_of_how_sure_a_peak_is(tmp_path):
    (found, *_) = find_ablations(_measures(tmp_path, lengths=(2, 4), prompts=1))
    assert all(math.isnan(curve.peak()[1]) for curve in found.curves)


def test_tokens_of_a_round_share_its_wait():
    cell = Cell("pair", "humaneval", "spectr", 3, 4, 1.0)
    rounds = [[4, 4, 5], [2, 4, 3], [0, 4, 1]]
    times = latency(
        [Record(cell, "a", 0, 0, tokens=9, rounds=rounds, first_token=0.5, gaps=[0.3, 0.2])]
    )
    # Three tokens of 0.1 and one of 0.2.
    assert (times.first_p50, times.token_p50) == pytest.approx((0.5, 0.1))
    assert times.token_p95 == pytest.approx(0.185)
    assert times.round_p50 == pytest.approx(0.25)


def test_a_peer_tells_its_token_gaps_only_where_rounds_are_tokens():
    cell = Cell("pair", "humaneval", "transformers:plain", 0, 0, 1.0)
    plain = latency([Record(cell, "a", 0, 0, tokens=3, gaps=[0.1, 0.2])])
    assert plain.token_p50 == pytest.approx(0.15)
    assisted = latency([Record(cell, "a", 0, 0, tokens=8, gaps=[0.1, 0.2])])
    assert math.isnan(assisted.token_p50) and assisted.round_p50 == pytest.approx(0.15)


def test_published_figures_stand_beside_the_nearest_setting(tmp_path):
    everything = _measures(tmp_path, lengths=(4, 8), drafts=(2, 3), temperatures=(0.0, 0.5, 1.0))
    ((measures, rows),) = published.nearest(everything)
    assert measures.group.temperature == 0.5
    assert rows["spectr-gbv"] == Row("spectr-gbv", 3, 8)
    table = beside_published(everything)
    assert "other models and other hardware" in table.title
    last = table.rows[-1]
    assert (last["paper_block_efficiency"], last["paper_speed_up"]) == (8.59, 2.12)
    assert math.isnan(table.rows[1]["speed_up"])  # the run has no spectr


def test_no_published_figures_beside_other_methods(tmp_path):
    run = load_run(write_run(tmp_path, run_records({"ar": 0.0}, prompts=5)))
    assert beside_published([Measures(group) for group in make_groups(run)]) is None
