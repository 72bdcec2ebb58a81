"""Differences that are there are established, those that are not are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from multidraft.bench.report.comparisons import (
    BLOCK_EFFICIENCY,
    SPEED,
    check_baselines,
    compare_all,
    opponents,
)
from multidraft.bench.report.group import Row, make_groups
from multidraft.bench.report.load import load_run
from multidraft.bench.report.measures import MEAN, SPEED_UP, Measures
from multidraft.bench.report.words import verdicts
from multidraft.errors import InvalidInput
from tests.bench.report.synthetic import run_records, write_run


def _compare(path, records, baselines=()):
    groups = make_groups(load_run(write_run(path, records)))
    return compare_all([Measures(g) for g in groups], check_baselines(baselines, groups))


def _renamed(record, method, faster=1.0):
    seconds = {phase: value / faster for phase, value in record.seconds.items()}
    return replace(record, cell=replace(record.cell, method=method), seconds=seconds)


def test_identical_methods_do_not_differ(tmp_path):
    records = run_records({"spectr": 0.7}, ("humaneval", "gsm8k"))
    found = _compare(tmp_path, [*records, *(_renamed(r, "spectr-gbv") for r in records)])
    assert {c.dataset for c in found} == {"humaneval", "gsm8k", MEAN}
    assert all(c.p == 1.0 and not c.established for c in found)
    assert all(c.effect.value == pytest.approx(float(c.figure == SPEED)) for c in found)
    established, not_established = verdicts(found)
    assert not established and len(not_established) == 2
    assert "mean over data sets 1.00× (p = 1.000)" in not_established[1]


def test_equally_good_methods_are_not_told_apart(tmp_path):
    found = _compare(tmp_path, run_records({"spectr": 0.7, "spectr-gbv": 0.7}, prompts=40))
    assert found and not any(c.established for c in found)


def test_a_planted_difference_in_speed_is_established(tmp_path):
    rng = np.random.default_rng(0)
    records = run_records({"ar": 0.0, "token": 0.6, "spectr": 0.7}, prompts=40)
    spectr = [r for r in records if r.cell.method == "spectr"]
    faster = [_renamed(r, "spectr-gbv", 1.1 * rng.lognormal(0.0, 0.1)) for r in spectr]
    (speed,) = [
        c
        for c in _compare(tmp_path, [*records, *faster])
        if (c.row.method, c.base.method, c.figure) == ("spectr-gbv", "spectr", SPEED)
    ]
    assert speed.established
    assert 1.0 < speed.effect.low < 1.1 < speed.effect.high < 1.2


def test_a_difference_in_block_efficiency_is_established_in_its_direction(tmp_path):
    found = _compare(tmp_path, run_records({"token": 0.5, "spectr": 0.75}, prompts=30))
    (c,) = [c for c in found if c.figure == BLOCK_EFFICIENCY]
    assert (c.row.method, c.base.method) == ("spectr", "token")
    assert c.established and 0 < c.effect.low < c.effect.value
    assert "spectr (K=3, L=4) more tokens per target call than token (K=1, L=4)" in str(
        verdicts(found)[0]
    )


@pytest.mark.parametrize(("there", "established"), [(1.2, True), (1 / 1.2, False)])
def test_a_data_set_waits_for_the_mean(tmp_path, there, established):
    """Faster here; there faster too, or slower by as much, so that the mean says nothing."""
    rng = np.random.default_rng(1)
    records = run_records({"spectr": 0.7}, ("humaneval", "gsm8k"), prompts=25)
    gain = {"humaneval": 1.2, "gsm8k": there}
    other = [
        _renamed(r, "spectr-gbv", gain[r.cell.dataset] * rng.lognormal(0.0, 0.03)) for r in records
    ]
    found = {c.dataset: c for c in _compare(tmp_path, [*records, *other]) if c.figure == SPEED}
    assert found["humaneval"].p < 0.001
    assert {c.established for c in found.values()} == {established}
    assert all(c.corrected >= found[MEAN].corrected for c in found.values())


def test_few_prompts_establish_nothing(tmp_path):
    found = _compare(tmp_path, run_records({"token": 0.3, "spectr": 0.9}, prompts=4))
    assert found and not any(c.established for c in found)


def test_opponents_share_their_shape_and_meet_once():
    rows = [Row("ar", 0, 0), Row("token", 1, 4), Row("token", 1, 8)]
    rows += [Row(m, k, 4) for m in ("spectr", "spectr-gbv") for k in (1, 3)]
    found = opponents(rows, ["ar", "token", "spectr"])
    assert (Row("spectr-gbv", 3, 4), Row("spectr", 3, 4)) in found
    assert (Row("spectr-gbv", 3, 4), Row("token", 1, 4)) in found
    assert (Row("spectr-gbv", 3, 4), Row("spectr", 1, 4)) not in found
    assert (Row("token", 1, 8), Row("ar", 0, 0)) in found
    assert not any(a.method == b.method for a, b in found)
    assert len({frozenset(pair) for pair in found}) == len(found)


def test_baselines_must_be_there(tmp_path):
    groups = make_groups(load_run(write_run(tmp_path, run_records({"token": 0.5}, prompts=5))))
    assert check_baselines([], groups) == ["token"]
    with pytest.raises(InvalidInput, match=r"no method 'spectr'.*it has token"):
        check_baselines(["spectr"], groups)


def test_the_mean_speed_ratio_is_the_mean_of_the_data_sets_ratios(tmp_path):
    """Twice as fast on a fast data set, half as fast on one with a tenth of its tokens/s."""
    plain, other = [], []
    for dataset, slower, gain in (("humaneval", 1.0, 2.0), ("gsm8k", 10.0, 0.5)):
        for record in run_records({"ar": 0.0}, (dataset,), prompts=10):
            plain.append(_renamed(record, "ar", 1.0 / slower))
            drafted = _renamed(plain[-1], "token", gain)
            shape = replace(drafted.cell, num_drafts=1, draft_length=4)
            other.append(replace(drafted, cell=shape))
    found = _compare(tmp_path, [*plain, *other])
    (speed,) = [c for c in found if c.is_mean and c.figure == SPEED]
    assert speed.effect.value == pytest.approx(1.0)
    measures, row = speed.measures, Row("token", 1, 4)
    for dataset in measures.by_dataset:
        ratio = next(c for c in found if c.dataset == dataset and c.figure == SPEED).effect
        summary = measures.estimate(dataset, SPEED_UP, row)
        assert (summary.value, summary.low, summary.high) == pytest.approx(
            (ratio.value, ratio.low, ratio.high)
        )
        base, over = (
            measures.estimate(dataset, "tokens_per_second", each).value
            for each in (Row("ar", 0, 0), row)
        )
        assert over / base == pytest.approx(ratio.value)
