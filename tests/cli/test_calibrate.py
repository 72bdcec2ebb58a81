"""`multidraft calibrate`: what it writes, and what it refuses before minutes are spent."""

from __future__ import annotations

import pytest

from multidraft.draft.calibrate import Candidate


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Once upon a time there was a target that drafted for itself.")
    return path


@pytest.fixture
def finds(monkeypatch):
    """What the search is to find."""

    def those(*candidates):
        def found(model, tokens, told):
            assert 16 <= len(tokens) <= 256
            told(1, 1)
            return list(candidates)

        monkeypatch.setattr("multidraft.draft.calibrate.calibrate", found)

    return those


def test_the_best_choice_is_written_and_can_be_used(run, pair, text, finds, tmp_path):
    finds(Candidate((0, 1), 0.9, 1.0, 1, 1.1), Candidate((1,), 0.8, 0.5, 3, 1.3))
    out = tmp_path / "layers.json"
    code, said, _ = run("calibrate", pair[0], "--text", str(text), "--out", str(out))
    assert code == 0
    assert "1.30×" in said and f"--draft self:{out}" in said
    code, _, err = run(
        *("generate", "hello", "-t", pair[0], "-d", f"self:{out}", "-L", "2", "-m", "5"),
        *("--dtype", "float32"),
    )
    assert code == 0 and "block efficiency" in err


def test_where_nothing_pays_nothing_is_written(run, pair, text, finds, tmp_path):
    finds(Candidate((1,), 0.1, 0.9, 0, 1.0))
    out = tmp_path / "layers.json"
    code, said, _ = run("calibrate", pair[0], "--text", str(text), "--out", str(out))
    assert code == 1
    assert "no gain" in said and "nothing is written" in said and not out.exists()


def test_refused_before_the_model_loads(run, text, tmp_path):
    layers = tmp_path / "layers.json"
    for source, out, message in (
        (tmp_path / "none.txt", layers, "Cannot read"),
        (text, tmp_path / "none" / "layers.json", "There is no folder"),
        (text, tmp_path, "must be a new file"),
        (text, text, "must be a new file"),
        (text, "0-9", "would be read as layer numbers"),
    ):
        code, _, err = run("calibrate", "no-model", "--text", str(source), "--out", str(out))
        assert code == 2 and message in err
