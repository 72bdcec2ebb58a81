"""Theory computed for a recorded run: the right laws at the right places, and nothing twice."""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from filelock import FileLock

from multidraft import load_model
from multidraft.audit.alphabet import tokens_of
from multidraft.bench.manifest import list_checksum
from multidraft.bench.theory import laws
from multidraft.bench.theory.acceptance import KINDS, acceptance
from multidraft.bench.theory.laws import laws_along
from multidraft.bench.theory.texts import COMPARABLE, answer_tokens, round_starts, whole_method
from multidraft.cli import bench_theory
from multidraft.errors import InvalidInput
from multidraft.models import Extension
from tests.bench.theory.conftest import MAX_TOKENS, PROMPTS, REPETITIONS


def test_what_is_scored(scored):
    _, records, scores = scored
    assert {s.cell.method for s in scores} == {"ar", *COMPARABLE}
    assert len(scores) == len({s.key for s in scores}) == 4 * PROMPTS * REPETITIONS
    for each in scores:
        record = records[each.key]
        assert each.error == "" and each.whole == (each.cell.method == "ar")
        starts = [start for start, _ in round_starts(record)]
        assert each.positions == (list(range(MAX_TOKENS)) if each.whole else starts)
        for kind in KINDS:
            assert [len(row) for row in each.acceptance[kind]] == [7] * len(each.positions)


def test_laws_are_those_after_the_text_so_far(scored, models):
    """The same numbers from each place's context alone."""
    _, records, scores = scored
    prompts = [json.loads(line)["prompt"] for line in _prompts_file(scored[0]).open()]
    pair = [load_model(folder, "float32", slots=1) for folder in (models.target, models.draft)]
    each = next(s for s in scores if s.cell.method == "spectr")
    text = records[each.key].text
    (prompt,) = [p for i, p in enumerate(prompts) if each.example.endswith(str(i))]
    for place, found in zip(each.positions, each.acceptance["spectr"], strict=True):
        context = tokens_of(prompt + text[:place])
        rows = []
        for model in pair:
            slot = model.open()
            model.prefill(slot, context[:-1])
            rows.append(model.extend([Extension(slot, context[-1:], [-1])])[0][0])
            model.close(slot)
        q, p = (torch.softmax(row.double() / 0.9, 0) for row in rows)
        assert found == pytest.approx(acceptance(q, p, 7)["spectr"], abs=1e-5)


def test_rounds_accept_what_theory_says(scored):
    """Round by round the outcome is a coin of the probability computed; of another K it is not.

    The draws differ from one run of the tests to the next, as the data set's name has their folder.
    """
    _, records, scores = scored
    for method, kind in COMPARABLE.items():
        gains, spread, other, rounds = 0.0, 0.0, 0.0, 0
        for each in (s for s in scores if s.cell.method == method):
            k = each.cell.num_drafts
            outcomes = dict(round_starts(records[each.key]))
            for place, values in zip(each.positions, each.acceptance[kind], strict=True):
                gains += outcomes[place] - values[k - 1]
                other += outcomes[place] - values[6 if k == 1 else 0]
                spread += values[k - 1] * (1 - values[k - 1])
                rounds += 1
        assert rounds > 300
        assert abs(gains) < 5 * math.sqrt(spread)
        assert abs(other) > 5 * math.sqrt(spread)


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_chunks_change_nothing(models, monkeypatch, chunk):
    model = load_model(models.target, "float32", slots=1)
    tokens, lengths = [1, 5, 2, 2, 7, 0, 3, 4, 6, 1], [2, 3, 7, 10]
    whole = list(laws_along(model, tokens, lengths, 0.7, 8))
    monkeypatch.setattr(laws, "_CHUNK", chunk)
    for law, same in zip(whole, laws_along(model, tokens, lengths, 0.7, 8), strict=True):
        assert law == pytest.approx(same, abs=1e-5)
        assert float(law.sum()) == pytest.approx(1.0)


def test_a_draft_of_another_width(models):
    model = load_model(models.draft, "float32", slots=1)
    (wide,) = laws_along(model, [1, 9, 2], [3], 0.7, 10)  # 9 is in the target's padding
    (narrow,) = laws_along(model, [1, 7, 2], [3], 0.7, 8)
    assert wide.tolist() == [*narrow.tolist(), 0.0, 0.0]


def test_stopped_cut_and_resumed(recorded, theory, scored):
    asked = 0

    def interrupted():
        nonlocal asked
        asked += 1
        return asked % 70 == 0

    finished, _, watch = theory(recorded, prompts=1, interrupted=interrupted)
    assert not finished and watch.plan == (4 * REPETITIONS, 0) and watch.scores
    file = recorded / "theory.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    finished, again, watch = theory(recorded, prompts=1)
    assert finished and watch.plan[1] > 0
    _, _, whole = scored
    assert again == [each for each in whole if each.example == again[0].example]
    finished, same, watch = theory(recorded, prompts=1)
    assert finished and same == again and watch.scores == []


def test_every_nth_place(recorded, theory):
    _, found, _ = theory(recorded, every=5, prompts=1)
    assert {tuple(s.positions) for s in found if s.whole} == {(0, 5, 10)}
    with pytest.raises(InvalidInput, match="begun with --every 5"):
        theory(recorded, every=2, prompts=1)


def test_texts_of_other_tokens_are_left_out(recorded, theory):
    lines = (recorded / "records.jsonl").read_text().splitlines()
    first = json.loads(next(line for line in lines if '"ar"' in line))
    (recorded / "records.jsonl").write_text(json.dumps({**first, "text": "abc"}) + "\n")
    _, (found,), _ = theory(recorded)
    assert found.error == "the text does not tell its tokens" and found.positions == []


def _tokens(text):
    """A tokenizer of single characters."""
    return lambda text, add_special_tokens: {"input_ids": [ord(c) for c in text]}


@pytest.mark.parametrize(
    ("text", "tokens", "reason", "expected"),
    [
        ("abcd", 4, "length", "abcd"),
        ("abcd", 5, "stop", "abcd"),  # and the end token
        ("abcd", 5, "length", None),
        ("abcd", 3, "length", None),
        ("abcd\ufffd", 6, "length", "abc"),  # two tokens of a character that has more
        ("abcd\ufffd", 9, "length", None),
        ("ab\ufffdd", 4, "length", "ab\ufffdd"),
    ],
)
def test_tokens_from_text(scored, text, tokens, reason, expected):
    record = next(iter(scored[1].values()))
    record = replace(record, text=text, tokens=tokens, finish_reason=reason)
    found = answer_tokens(_tokens(text), record)
    assert found == (None if expected is None else [ord(c) for c in expected])


def test_rounds_that_drafted_nothing_are_none(scored):
    record = next(iter(scored[1].values()))
    record = replace(record, rounds=[[1, 2, 2], [0, 2, 1], [0, 0, 1], [2, 2, 3]])
    assert list(round_starts(record)) == [(0, True), (2, False), (4, True)]


def test_whose_texts_are_scored_whole(scored):
    records = list(scored[1].values())
    assert whole_method(["token", "ar"], records) == "ar"
    assert whole_method(["transformers:plain", "spectr", "token"], records) == "spectr"
    assert whole_method(["transformers:assisted@3", "spectr@4"], records) == "spectr"


def _prompts_file(path):
    (name,) = json.loads((path / "manifest.json").read_text())["config"]["data"]
    return type(path)(name.removeprefix("file:"))


def test_another_list_of_tokens_is_refused(recorded, theory, tmp_path):
    file = tmp_path / "mine.npz"
    file.write_bytes(b"a list")
    manifest = json.loads((recorded / "manifest.json").read_text())
    manifest["config"]["pairs"][0]["draft_head"] = str(file)
    manifest["models"][str(file)] = list_checksum(file)
    (recorded / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InvalidInput, match="is not a list of tokens"):  # the models are loaded
        theory(recorded)
    file.write_bytes(b"another")
    with pytest.raises(InvalidInput, match="not the list of tokens that the draft of the run had"):
        theory(recorded)


def test_other_models_are_refused(recorded, theory, models):
    manifest = json.loads((recorded / "manifest.json").read_text())
    manifest["models"][str(models.draft)]["model.safetensors"] = "0" * 64
    (recorded / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InvalidInput, match=r"not the model of the run: its model\.safetensors"):
        theory(recorded)


def test_other_prompts_are_refused(recorded, theory):
    manifest = json.loads((recorded / "manifest.json").read_text())
    (data,) = manifest["data"].values()
    data["sha256"] = "0" * 64
    (recorded / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InvalidInput, match="are not those of the run"):
        theory(recorded)


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.0},  # nothing is drawn
        {"method": "traversal"},  # judges more than the first token
        {"method": "transformers:plain"},
        {"pair": "a target alone"},
    ],
)
def test_nothing_to_score(recorded, theory, change):
    record = json.loads((recorded / "records.jsonl").read_text().splitlines()[0])
    record["cell"].update(change)
    (recorded / "records.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(InvalidInput, match="no text to score"):
        theory(recorded)


def test_two_at_once(recorded, theory):
    with FileLock(recorded / ".theory.lock"), pytest.raises(InvalidInput, match="Another process"):
        theory(recorded)


def test_command(recorded, run):
    code, said, _ = run("bench", "theory", str(recorded), "--prompts", "1", "--every", "8")
    assert code == 0
    assert said == f"40 of 40 texts are scored; see them with: multidraft bench report {recorded}\n"


def test_ctrl_c(recorded, run, monkeypatch):
    scored = bench_theory._Shown.scored

    def and_press(shown, scores):
        scored(shown, scores)
        if shown.done == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(bench_theory._Shown, "scored", and_press)
    code, said, err = run("bench", "theory", str(recorded), "--prompts", "1")
    assert (code, said) == (130, "")
    assert f"2 of 40 texts are scored. Go on with: multidraft bench theory {recorded}" in err
    assert "--prompts=1" in err


@pytest.mark.parametrize("what", ["nowhere", "empty"])
def test_no_run(run, tmp_path, what):
    (tmp_path / "empty").mkdir()
    code, said, err = run("bench", "theory", str(tmp_path / what))
    assert (code, said) == (2, "")
    assert re.search("is no run's folder", " ".join(err.split())) and "Traceback" not in err
    assert not (tmp_path / "nowhere").exists() and not any((tmp_path / "empty").iterdir())
    shutil.rmtree(tmp_path / "empty")
