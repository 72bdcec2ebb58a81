"""The report's section on theory: its numbers, and what stands beside what."""

from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest

from multidraft.bench.report.document import make_document
from multidraft.bench.report.load import load_run
from multidraft.bench.report.measures import MEAN
from multidraft.bench.report.render import render
from multidraft.bench.report.theory import theories
from multidraft.bench.theory.acceptance import KINDS
from multidraft.bench.theory.texts import round_starts


def _changed(path, name, change):
    """The lines of a run's file, each changed."""
    lines = [json.loads(line) for line in (path / name).read_text().splitlines()]
    (path / name).write_text("".join(json.dumps(change(line)) + "\n" for line in lines))


@pytest.fixture(scope="module")
def two_sets(scored, tmp_path_factory):
    """The same run, half of its prompts in another data set."""
    path = shutil.copytree(scored[0], tmp_path_factory.mktemp("two") / "run")

    def change(line):
        if line["example"][-1] in "01":
            line["cell"]["dataset"] = "other"
        return line

    _changed(path, "records.jsonl", change)
    _changed(path, "theory.jsonl", change)
    return path


def test_means_and_intervals(two_sets):
    (theory,) = theories(load_run(two_sets))
    scores = [s for s in load_run(two_sets).theory if s.whole]
    sets = {s.cell.dataset for s in scores}
    assert theory.main == MEAN and set(theory.acceptance) == {*sets, MEAN}
    for kind in KINDS:
        means = []
        for dataset in sets:
            rows = [s.acceptance[kind] for s in scores if s.cell.dataset == dataset]
            means.append(np.concatenate(rows).mean(axis=0))
            assert theory.acceptance[dataset][kind].values == pytest.approx(means[-1])
        found = theory.acceptance[MEAN][kind]
        assert found.values == pytest.approx(np.mean(means, axis=0))
    assert sum(theory.texts.values()) == 60 and theory.texts["other"] == 20


def test_intervals_are_over_prompts(scored):
    (theory,) = theories(load_run(scored[0]))
    measured = theory.acceptance[theory.main]["spectr"]
    assert measured.units == 6  # not the 60 texts of them
    each = measured.estimate(2)
    assert each.low < each.value < each.high


def test_measured_beside_expected(scored):
    path, records, scores = scored
    (theory,) = theories(load_run(path))
    assert [m.row.method for m in theory.measurements] == ["token", "specinfer", "spectr"]
    assert [m.row.num_drafts for m in theory.measurements] == [1, 4, 4]
    for found in theory.measurements:
        method = found.row.method
        of_method = [r for r in records.values() if r.cell.method == method]
        outcomes = [accepted for r in of_method for _, accepted in round_starts(r)]
        kind = "spectr" if method == "spectr" else "specinfer"
        column = found.row.num_drafts - 1
        expected = [
            row[column] for s in scores if s.cell.method == method for row in s.acceptance[kind]
        ]
        assert found.rounds == len(outcomes) == len(expected)
        assert found.measured.value == pytest.approx(np.mean(outcomes))
        assert found.expected.value == pytest.approx(np.mean(expected))
        gap = found.measured.value - found.expected.value
        assert found.difference.value == pytest.approx(gap)
        assert found.difference.low < found.difference.value < found.difference.high


def test_rounds_that_were_not_scored_do_not_count(scored, tmp_path):
    path = shutil.copytree(scored[0], tmp_path / "run")

    def every_other(line):
        line["positions"] = line["positions"][::2]
        line["acceptance"] = {kind: rows[::2] for kind, rows in line["acceptance"].items()}
        return line

    _changed(path, "theory.jsonl", every_other)
    (whole,), (half,) = (theories(load_run(p)) for p in (scored[0], path))
    for a, b in zip(whole.measurements, half.measurements, strict=True):
        assert 0.4 * a.rounds < b.rounds < 0.7 * a.rounds
        assert b.measured.value != a.measured.value


def test_a_method_that_has_not_come_to_one_of_the_data_sets(two_sets, tmp_path):
    """As in a run that is stopped early."""
    path = shutil.copytree(two_sets, tmp_path / "run")
    for name in ("records.jsonl", "theory.jsonl"):
        lines = (path / name).read_text().splitlines(keepends=True)
        cells = [json.loads(line)["cell"] for line in lines]
        kept = [c["dataset"] != "other" or c["method"] != "spectr" for c in cells]
        assert not all(kept)
        (path / name).write_text("".join(x for x, keep in zip(lines, kept, strict=True) if keep))
    (theory,) = theories(load_run(path))
    sets = {m.dataset for m in theory.measurements if m.row.method == "spectr"}
    assert len(sets) == 1 and not sets & {"other", MEAN}


def test_section(two_sets):
    document = make_document(load_run(two_sets))
    (section,) = [s for s in document.sections if s.title == "Theory beside measurement"]
    assert "720 places of 60 texts of ar" in section.paragraphs[0]
    assert len(section.paragraphs) == 1  # no text was left out
    files = render(document)
    rows = list(csv.DictReader(io.StringIO(files["report.csv"].decode())))
    mean = [r for r in rows if r["table"] == "theory-1" and r["num_drafts"] == "3"]
    assert {r["measure"] for r in mean} == {f"first_token_{kind}" for kind in KINDS}
    assert {r["dataset"] for r in rows if r["table"] == "theory-datasets-1"} > {"other"}
    assert {r["method"] for r in rows if r["table"] == "theory-measured-1"} == {
        *("token", "specinfer", "spectr")
    }
    identities = [tuple(r.values())[:10] for r in rows]
    assert len(identities) == len(set(identities))
    assert "figures/theory-1.svg" in files and "recursive rejection" in files["report.md"].decode()


def test_texts_left_out_are_told(scored, tmp_path):
    path = shutil.copytree(scored[0], tmp_path / "run")

    def without(line):
        if line["repetition"] == 0:
            line.update(error="the text does not tell its tokens", positions=[])
            line["acceptance"] = {}
        return line

    _changed(path, "theory.jsonl", without)
    (section,) = [s for s in make_document(load_run(path)).sections if "Theory" in s.title]
    assert section.paragraphs[1].startswith("Left out: 24 texts.")


def test_no_theory_no_section(original):
    run = load_run(original)
    assert theories(run) == []
    assert all("Theory" not in s.title for s in make_document(run).sections)
