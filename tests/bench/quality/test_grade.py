"""A run's answers are graded once each, by the data they were asked from, or not at all."""

from __future__ import annotations

import json

import pytest

from multidraft.bench.quality import grade as grading
from multidraft.bench.quality import sandbox
from multidraft.bench.quality.grade import grade_run
from multidraft.bench.quality.grades import RULES, open_grades, read_grades
from multidraft.bench.report.load import load_run
from multidraft.errors import InvalidInput
from tests.bench.quality.isolation import needs_isolation
from tests.bench.quality.made_up import answer, make_run, sums, write_gsm8k, write_humaneval
from tests.cli.conftest import run

__all__ = ["run"]


@pytest.fixture
def data(tmp_path):
    return write_humaneval(write_gsm8k(tmp_path / "data", 30))


def _sum(i, text, reason="stop", method="ar"):
    return answer("gsm8k", method, f"gsm8k/{i}", text, reason)


def _code(text, reason="stop", method="ar"):
    return answer("humaneval", method, "HumanEval/0", text, reason)


def _grades(path):
    return {(g.cell.method, g.example): g for g in read_grades(path).values()}


def test_right_wrong_and_cut(tmp_path, data):
    records = [
        _sum(1, "1 + 1 = 2, of 5."),
        _sum(2, "So 2 + 2 = 4."),
        _sum(3, "That is 6. And 3", "length"),
        _sum(4, " 4 + 4 = 8.\nQuestion: What is 5 + 5?\nAnswer: 10", "length"),
        _sum(5, "I do not know."),
    ]
    path = make_run(tmp_path / "run", data, records)
    tallies, left_out = grade_run(path, None, False)
    (tally,) = tallies
    assert (tally.dataset, tally.answers, tally.right, tally.cut) == ("gsm8k", 5, 2, 1)
    assert left_out == 0
    found = [
        (g.example[-1], g.right, g.cut, g.found) for g in sorted(_grades(path).values(), key=str)
    ]
    assert found == [
        ("1", False, False, "5"),
        ("2", True, False, "4"),
        ("3", False, True, ""),
        ("4", True, False, "8"),
        ("5", False, False, ""),
    ]


@needs_isolation
def test_programs(tmp_path, data):
    records = [
        _code("    return 2 * x\n"),
        _code("```python\ndef twice(x):\n    return x\n```", method="token"),
        _code("```python\ndef twice(x):\n    return 2 * x", "length", method="block"),
        _code("```python\ndef twice(x):\n    return 2 * x\n```\nIt", "length", method="spectr"),
    ]
    path = make_run(tmp_path / "run", data, records)
    grade_run(path, None, True)
    found = {method: (g.right, g.cut, g.found) for (method, _), g in _grades(path).items()}
    assert found == {
        "ar": (True, False, ""),
        "token": (False, False, "AssertionError"),
        "block": (False, True, ""),
        "spectr": (True, False, ""),
    }


def test_code_runs_only_where_allowed(tmp_path, data, monkeypatch):
    monkeypatch.setattr(grading, "run_isolated", lambda _: pytest.fail("it ran"))
    path = make_run(tmp_path / "run", data, [_code("    return 2 * x\n"), _sum(1, "2")])
    tallies, left_out = grade_run(path, None, False)
    assert [tally.dataset for tally in tallies] == ["gsm8k"] and left_out == 1
    path = make_run(tmp_path / "other", data, [_code("    return 2 * x\n")])
    with pytest.raises(InvalidInput, match="--allow-code-execution"):
        grade_run(path, None, False)


def test_refused_where_code_cannot_be_isolated(tmp_path, data, monkeypatch, run):
    broken = tmp_path / "jail.py"
    broken.write_text(sandbox._JAIL.read_text().replace('"unshare", _NEW', '"unshare", ~_NEW'))
    monkeypatch.setattr(sandbox, "_JAIL", broken)
    path = make_run(tmp_path / "run", data, [_sum(1, "2"), _code("    return 2 * x\n")])
    code, out, err = run("bench", "grade", str(path), "--allow-code-execution")
    assert code == 2 and out == "" and "cannot be run in isolation here (unshare" in err
    assert not read_grades(path)


def test_a_grading_that_was_stopped_goes_on(tmp_path, data, monkeypatch):
    path = make_run(tmp_path / "run", data, sums({"ar": 0.5, "token": 0.5}, 30))

    def stop(done, total):
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade_run(path, None, False, stop)
    file = path / "quality.jsonl"
    before = file.read_text()
    assert before.count("\n") == 20
    file.write_text(before + '{"cell": {"pair": "pa')  # as a kill leaves it
    grade_run(path, None, False)
    after = file.read_text()
    assert after.startswith(before) and after.count("\n") == 60
    assert len(read_grades(path)) == 60


def test_an_unfinished_run_is_graded_further(tmp_path, data):
    path = make_run(tmp_path / "run", data, sums({"ar": 0.5}, 20))
    grade_run(path, None, False)
    with (path / "records.jsonl").open("a") as file:
        file.writelines(json.dumps(r.to_dict()) + "\n" for r in sums({"token": 0.5}, 20))
    (tally,), _ = grade_run(path, None, False)
    assert tally.answers == 40 and len(load_run(path).grades) == 40


def test_other_data_are_refused(tmp_path, data):
    path = make_run(tmp_path / "run", data, sums({"ar": 0.5}, 5))
    other = write_gsm8k(tmp_path / "other", 29)
    with pytest.raises(InvalidInput, match="prompts of gsm8k are not those of the run"):
        grade_run(path, other, False)
    assert not read_grades(path)
    moved = data.rename(tmp_path / "moved")
    (tally,), _ = grade_run(path, moved, False)
    assert tally.answers == 5


def test_short_answers_are_refused(tmp_path, data):
    path = make_run(tmp_path / "run", data, sums({"ar": 0.5}, 5), max_tokens=511)
    with pytest.raises(InvalidInput, match=r"cut at 511 tokens.*--max-tokens 512"):
        grade_run(path, None, False)


def test_nothing_to_grade(tmp_path, data):
    path = make_run(tmp_path / "run", data, [answer("alpaca", "ar", "alpaca/1", "Hello")])
    with pytest.raises(InvalidInput, match="no answers of humaneval, gsm8k or mgsm"):
        grade_run(path, None, False)


def test_grades_by_other_rules_are_refused(tmp_path, data):
    path = make_run(tmp_path / "run", data, sums({"ar": 0.5}, 5))
    grade_run(path, None, False)
    file = path / "quality.jsonl"
    file.write_text(file.read_text().replace(f'"rules": {RULES}', '"rules": 0'))
    with pytest.raises(InvalidInput, match="another version's rules; remove it"):
        load_run(path)


def test_two_gradings_at_once_are_refused(tmp_path, data):
    path = make_run(tmp_path / "run", data, sums({"ar": 0.5}, 5))
    with open_grades(path), pytest.raises(InvalidInput, match="Another process is grading"):
        grade_run(path, None, False)


@needs_isolation
def test_command(tmp_path, data, run):
    path = make_run(tmp_path / "run", data, [_sum(1, "2"), _sum(2, "5"), _code("    return 2 * x")])
    code, out, _ = run("bench", "grade", str(path))
    assert code == 0
    assert out.splitlines() == [
        "gsm8k: 2 answers graded, 1 right, 0 cut at max_tokens",
        "humaneval: 1 answers not graded; --allow-code-execution lets their code run",
    ]
    code, out, _ = run("bench", "grade", str(path), "--allow-code-execution")
    assert code == 0 and "humaneval: 1 answers graded, 1 right" in out
    code, out, err = run("bench", "grade", str(tmp_path / "none"))
    assert code == 2 and "no run's folder" in err and "Traceback" not in err
