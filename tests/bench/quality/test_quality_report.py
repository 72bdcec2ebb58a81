"""The report's part on quality: what is known of a made-up run is what it says."""

from __future__ import annotations

import csv

import pytest

from multidraft.bench.quality.grade import grade_run
from multidraft.bench.report.document import make_document
from multidraft.bench.report.graded import ALL, DIFFERENT, EQUIVALENT, OPEN, graded
from multidraft.bench.report.group import make_groups
from multidraft.bench.report.load import load_run
from multidraft.bench.report.quality import cut_off, not_graded, quality_rule, quality_words
from tests.bench.quality.isolation import needs_isolation
from tests.bench.quality.made_up import answer, make_run, sums, write_gsm8k, write_humaneval
from tests.cli.conftest import run

__all__ = ["run"]


def _graded(tmp_path, records, prompts):
    path = make_run(tmp_path / "run", write_gsm8k(tmp_path / "data", prompts), records)
    grade_run(path, None, False)
    run = load_run(path)
    return path, graded(run, make_groups(run))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    methods = {"ar": 0.6, "token": 0.6, "spectr": 0.3}
    return _graded(tmp_path_factory.mktemp("large"), sums(methods, 400), 400)


def test_verdicts(large):
    _, found = large
    verdicts = {each.row.method: each.verdict(0.06) for each in found}
    assert verdicts == {"ar": "", "token": EQUIVALENT, "spectr": DIFFERENT}
    words = quality_words(found, 0.06)
    assert words["Equivalent within ±0.06"][0].startswith("token (K=3, L=4) on gsm8k: ")
    assert "(p < 0.001)." in words["Different"][0]


def test_a_margin_too_small_for_the_sample(large):
    _, found = large
    token = next(each for each in found if each.row.method == "token")
    assert token.verdict(0.02) == OPEN
    (text,) = quality_words(found, 0.02)["Not established"]
    assert f"show no less than ±{token.against.shown:.3f}" in text
    assert f"takes about {token.against.prompts_needed(0.02):,} prompts" in text


def test_few_prompts_establish_nothing(tmp_path):
    _, found = _graded(tmp_path, sums({"ar": 0.9, "token": 0.9}, 12), 12)
    assert found[1].verdict(0.05) == OPEN and found[1].against.best > 0.1


def test_repetitions(tmp_path):
    _, found = _graded(tmp_path, sums({"ar": 0.6, "token": 0.6}, 20, repetitions=3), 20)
    assert [(len(each.grades), each.answers) for each in found] == [(20, 60), (20, 60)]


def test_files(large, run):
    path, found = large
    code, _, err = run("bench", "report", str(path), "--margin", "5")
    assert code == 2 and "between 0 and 1, not 5" in err and not (path / "report").exists()
    code, _, _ = run("bench", "report", str(path), "--margin", "0.06")
    assert code == 0
    page, markdown, tex = (
        (path / "report" / f"report.{kind}").read_text() for kind in ("html", "md", "tex")
    )
    assert "## Quality" in markdown and ">Quality</h2>" in page
    assert r"\input{tables/quality-1}" in tex
    with (path / "report" / "report.csv").open() as file:
        rows = {
            (row["method"], row["measure"]): row
            for row in csv.DictReader(file)
            if row["table"] == "quality-1"
        }
    token = next(each for each in found if each.row.method == "token")
    share = sum(map(sum, token.right)) / token.answers
    assert float(rows["token", "accuracy"]["value"]) == pytest.approx(share, abs=1e-6)
    difference = rows["token", "difference"]
    assert float(difference["low"]) == pytest.approx(token.against.low, abs=1e-5)
    text = f"{token.against.difference:+.3f} [{token.against.low:+.3f}, {token.against.high:+.3f}]"
    assert text in page and text in markdown
    assert "| equivalent |" in markdown and "| different |" in markdown


@needs_isolation
def test_several_data_sets_count_together(tmp_path):
    data = write_humaneval(write_gsm8k(tmp_path / "data", 30))
    records = list(sums({"ar": 0.5, "token": 0.5}, 30))
    records += [
        answer("humaneval", method, "HumanEval/0", "    return 2 * x", reason)
        for method, reason in (("ar", "stop"), ("token", "length"))
    ]
    path = make_run(tmp_path / "run", data, records)
    grade_run(path, None, False)
    (text,) = not_graded(load_run(path))
    assert text.startswith("humaneval: 2 answers are not graded")
    grade_run(path, None, True)
    assert not list(not_graded(load_run(path)))
    found = graded(load_run(path), make_groups(load_run(path)))
    together = {each.row.method: each for each in found if each.dataset == ALL}
    assert len(together["ar"].grades) == 31 and together["token"].cut == 1
    (text,) = cut_off(found, 512)
    assert text.startswith("1 of 62 answers were cut off at 512 tokens")


def test_without_plain_decoding(tmp_path):
    _, found = _graded(tmp_path, sums({"token": 0.6}, 20), 20)
    assert found[0].against is None and "no plain decoding (ar)" in quality_rule(found, 0.05)


def test_no_grades_no_section(tmp_path):
    path = make_run(tmp_path / "run", write_gsm8k(tmp_path / "data", 9), sums({"ar": 0.5}, 9))
    assert "Quality" not in [section.title for section in make_document(load_run(path)).sections]
