"""`multidraft head`."""

from __future__ import annotations

import pytest

from multidraft import load_model
from multidraft.models import head_count


def test_count_then_load(pair, run, tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a.txt").write_text("abba aab\n")
    (tmp_path / "text/b.bin").write_bytes(b"\xff\xfe")
    out = tmp_path / "list.npz"
    code, shown, _ = run("head", pair[1], str(tmp_path / "text"), "--out", str(out))
    assert code == 0
    assert "9 tokens, 4 different ones, in 1 files; 1 more are not UTF-8 text." in shown
    assert "Those after the first 4 never came" in shown
    assert "100.00%" in shown and f"Written to {out}" in shown

    draft = load_model(pair[1], dtype="float32", device="cpu", slots=1, head_tokens=f"{out}@2")
    listed = draft.tokenizer.convert_ids_to_tokens(draft.head.tokens)
    assert sorted(listed) == ["<eos>", "a", "b"]
    assert draft.vocab_size == 257


def test_size_cuts_the_file(pair, run, tmp_path):
    (tmp_path / "a.txt").write_text("abba aab\n")
    out = tmp_path / "list.npz"
    command = ("head", pair[1], str(tmp_path / "a.txt"), "--out", str(out), "--size")
    code, shown, _ = run(*command, "2")
    assert code == 0 and "never came" not in shown
    model = load_model(pair[1], dtype="float32", device="cpu", slots=1, head_tokens=out)
    assert len(model.head.tokens) == 3
    code, _, error = run(*command, "300")
    assert (code, error) == (2, "multidraft: --size must lie in 1 ... 257, not be 300.\n")


@pytest.mark.parametrize(
    ("text", "out", "message"),
    [
        ("gone.txt", "l.npz", "There is no file or folder"),
        (".", "l.json", "--out must end in .npz"),
        (".", "no/l.npz", "There is no folder"),
    ],
)
def test_bad_input_is_one_line(pair, run, tmp_path, monkeypatch, text, out, message):
    monkeypatch.chdir(tmp_path)
    code, shown, error = run("head", pair[1], text, "--out", out)
    assert (code, shown) == (2, "")
    assert error.startswith(f"multidraft: {message}") and error.count("\n") == 1
    assert not list(tmp_path.rglob("*l.*"))


def test_an_interruption_leaves_nothing(pair, run, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("abba aab\n")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(head_count, "count_tokens", interrupted)
    out = tmp_path / "list.npz"
    code, _, _ = run("head", pair[1], str(tmp_path / "a.txt"), "--out", str(out))
    assert code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
