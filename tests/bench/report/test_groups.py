"""What is counted: which records, which rounds, which prompts, and as what."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from multidraft.bench.records import Cell, Record
from multidraft.bench.report.group import Row, make_groups
from multidraft.bench.report.load import load_run
from multidraft.bench.report.measures import MEAN, Measures
from multidraft.bench.report.sums import sums_of
from multidraft.bench.report.words import incomplete, smaller_batches
from multidraft.errors import InvalidInput
from tests.bench.report.synthetic import MAX_TOKENS, run_records, write_run

CELL = Cell("pair", "humaneval", "spectr", 3, 4, 1.0)


def _record(rounds, cell=CELL, example="a", seconds=1.0, **values):
    tokens = sum(emitted for _, _, emitted in rounds)
    times = {"draft": 0.0, "target": seconds, "verify": 0.0, "other": 0.0}
    return Record(cell, example, 0, 0, tokens=tokens, rounds=rounds, seconds=times, **values)


def test_full_rounds_have_room_and_are_not_cut():
    # Of 12 tokens: full, full, then 4 left, so L = 4 does not fit.
    sums = sums_of(_record([[4, 4, 5], [2, 4, 3], [3, 3, 4]]), 12)
    assert (sums["full_rounds"], sums["full_tokens"]) == (2, 8)
    assert sums["fractions"] == pytest.approx(4 / 4 + 2 / 4)
    # The second round was cut by an end token: three accepted, none after them.
    sums = sums_of(_record([[1, 4, 2], [3, 4, 3]]), MAX_TOKENS)
    assert (sums["full_rounds"], sums["full_tokens"]) == (1, 2)


def test_a_draft_that_stops_early_by_itself_counts():
    sums = sums_of(_record([[4, 4, 5], [0, 1, 1]]), MAX_TOKENS)
    assert (sums["full_rounds"], sums["full_tokens"]) == (2, 6)


def test_plain_decoding_and_peers():
    plain = replace(CELL, method="ar", num_drafts=0, draft_length=0)
    sums = sums_of(_record([[0, 0, 1]] * 3, plain), 3)
    assert sums["full_tokens"] / sums["full_rounds"] == 1.0 and math.isnan(sums["fractions"])
    seconds = {"draft": 0.0, "target": 0.0, "verify": 0.0, "other": 2.0}
    peer = Record(plain, "a", 0, 0, tokens=3, seconds=seconds)
    assert sums_of(peer, 3)["seconds"] == 2.0 and math.isnan(sums_of(peer, 3)["other"])


def test_methods_stand_in_the_configurations_order(tmp_path):
    assisted = replace(CELL, method="transformers:assisted", num_drafts=1, draft_length=5)
    plain = replace(CELL, method="ar", num_drafts=0, draft_length=0)
    records = [_record([[0, 0, 1]], plain), _record([[0, 0, 1]], assisted)]
    run = write_run(tmp_path / "run", records, ["transformers:assisted@5", "ar"])
    (group,) = make_groups(load_run(run))
    assert [str(row) for row in group.rows] == ["transformers:assisted (K=1, L=5)", "ar"]


def test_ratio_of_sums_by_hand(tmp_path):
    plain = replace(CELL, method="ar", num_drafts=0, draft_length=0)
    records = [
        _record([[4, 4, 5], [4, 4, 5]], seconds=2.0),
        _record([[0, 4, 1]] * 3, example="b", seconds=4.0),
        _record([[0, 0, 1]] * 10, plain, seconds=10.0),
        _record([[0, 0, 1]] * 5, plain, "b", seconds=10.0),
    ]
    (group,) = make_groups(load_run(write_run(tmp_path, records)))
    measured, row = Measures(group).by_dataset["humaneval"], group.rows.index(Row("spectr", 3, 4))
    assert measured["block_efficiency"].values[row] == pytest.approx(13 / 5)  # not (5 + 1) / 2
    assert measured["acceptance_rate"].values[row] == pytest.approx((2 * 4 / 4) / 5)
    assert measured["tokens_per_second"].values[row] == pytest.approx(13 / 6)
    assert measured["speed_up"].values[row] == pytest.approx((13 / 6) / (15 / 20))


def test_mean_gives_data_sets_equal_weight(tmp_path):
    other = replace(CELL, dataset="gsm8k")
    records = [_record([[4, 4, 5]]), *(_record([[0, 4, 1]], other, str(i)) for i in range(9))]
    (group,) = make_groups(load_run(write_run(tmp_path, records)))
    assert Measures(group).by_dataset[MEAN]["block_efficiency"].values == pytest.approx([3.0])


def test_cut_line_duplicates_and_failures(tmp_path):
    good = _record([[4, 4, 5]])
    again = _record([[0, 4, 1]])
    broken = _record([], example="b", error="Prompt too long.")
    path = write_run(tmp_path, [good, again, broken])
    with (path / "records.jsonl").open("a") as file:
        file.write('{"cell": {"pair"')
    run = load_run(path)
    assert run.records == [good]  # the first one counts
    assert run.failed == [broken] and run.repeated == 1


def test_only_prompts_that_every_method_has(tmp_path):
    records = run_records({"ar": 0.0, "token": 0.6, "spectr": 0.7}, prompts=10)
    lost = records.index(next(r for r in records if r.cell.method == "token"))
    records[lost] = replace(records[lost], error="failed")
    (group,) = make_groups(load_run(write_run(tmp_path, records)))
    sample = group.samples["humaneval"]
    assert (sample.prompts, sample.left_out, sample.absent) == (9, 1, ())
    assert "1 of 10 prompts" in incomplete([group])[0]


def test_a_method_that_fails_mostly_takes_no_prompts_from_the_others(tmp_path):
    records = run_records({"ar": 0.0, "token": 0.6, "spectr": 0.7}, prompts=10)
    records = [r for r in records if r.cell.method != "token" or r.example.endswith("/1")]
    (group,) = make_groups(load_run(write_run(tmp_path, records)))
    sample = group.samples["humaneval"]
    assert sample.prompts == 10 and sample.absent == (Row("token", 1, 4),)
    token = group.rows.index(Row("token", 1, 4))
    assert np.isnan(Measures(group).by_dataset["humaneval"]["speed_up"].values[token])
    assert "less than half" in incomplete([group])[0]


def test_repetitions_and_batches_are_one_unit(tmp_path):
    records = [
        replace(_record([[4, 4, 5]], example=example), repetition=repetition)
        for example in "abcd"
        for repetition in (0, 1)
    ]
    (group,) = make_groups(load_run(write_run(tmp_path / "1", records)))
    assert group.samples["humaneval"].units == 4
    batch = replace(CELL, batch=2)
    records = [
        # The second repetition's blocks have other numbers, but the same prompts in them.
        replace(r, cell=batch, block=10 * r.repetition + "abcd".index(r.example) // 2)
        for r in records
    ]
    (group,) = make_groups(load_run(write_run(tmp_path / "2", records)))
    sample = group.samples["humaneval"]
    assert (sample.units, sample.prompts) == (2, 4) and sample.sums["tokens"].tolist() == [[20]] * 2


def test_smaller_batches_are_told(tmp_path):
    batch = replace(CELL, batch=2)
    records = [
        replace(_record([[4, 4, 5]], cell, example), block=block)
        for cell, blocks in ((batch, (0, 0, 1, 1, 2)), (CELL, (3, 4, 5, 6, 7)))
        for example, block in zip("abcde", blocks, strict=True)
    ]
    assert list(smaller_batches(load_run(write_run(tmp_path / "1", records[5:])))) == []
    assert list(smaller_batches(load_run(write_run(tmp_path / "2", records[:4])))) == []
    records[0] = replace(records[0], error="The logits hold NaN.")
    (told,) = smaller_batches(load_run(write_run(tmp_path / "3", records)))
    assert "Batch 2: 2 of 4 generations had fewer" in told


def test_folders_that_are_no_runs(tmp_path):
    with pytest.raises(InvalidInput, match="no run's folder"):
        load_run(tmp_path)
    with pytest.raises(InvalidInput, match="no finished generation"):
        load_run(write_run(tmp_path, []))
