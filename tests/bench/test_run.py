"""Whole runs on a tiny pair: what is recorded, and that stopping them costs nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter

import pytest
import torch
from filelock import FileLock

from multidraft import Decoder, SamplingParams, load_model
from multidraft.bench import ours
from multidraft.bench.folder import read_manifest
from multidraft.bench.manifest import difference
from multidraft.draft import ModelDrafter
from multidraft.draft.named import DRAFTERS
from multidraft.engine.control.auto import AutoController
from multidraft.errors import InvalidInput, InvalidLogits
from multidraft.models.head_list import write_list
from tests.bench.conftest import PROMPTS


def measured(records):
    """What does not depend on the clock, in an order of its own."""
    rows = [(str(r.key), r.seed, r.tokens, r.rounds, r.text, r.block, r.error) for r in records]
    return sorted(rows)


def test_records(bench, pair):
    finished, records, listener = bench(num_drafts=[2, 3], draft_length=3)
    assert finished and listener.plan == (12, 0)
    assert Counter((r.cell.method, r.cell.num_drafts) for r in records) == {
        ("ar", 0): 3,
        ("token", 1): 3,
        ("spectr-gbv", 2): 3,
        ("spectr-gbv", 3): 3,
    }
    for record in records:
        assert record.error == "" and record.finish_reason in ("length", "stop")
        assert record.tokens == sum(emitted for _, _, emitted in record.rounds)
        assert len(record.gaps) == len(record.rounds) - 1
        for accepted, depth, emitted in record.rounds:
            assert accepted <= depth <= record.cell.draft_length
            assert emitted <= accepted + 1
        total = sum(record.seconds.values())
        assert 0 < record.first_token + sum(record.gaps) <= total + 1e-3
        assert record.peak_memory > 0 and record.prompt_tokens > 0
    plain = [r for r in records if r.cell.method == "ar"]
    assert all(r.rounds == [[0, 0, 1]] * r.tokens for r in plain)

    # The same generation as by hand.
    record = next(r for r in records if r.cell.num_drafts == 3 and r.example == "sum")
    target, draft = (load_model(name, dtype="float32", slots=1) for name in pair)
    decoder = Decoder(target, ModelDrafter(draft, 3, 3), "spectr-gbv")
    message = [{"role": "user", "content": PROMPTS[2]["prompt"]}]
    (result,) = decoder.generate([message], SamplingParams(max_tokens=10, seed=record.seed))
    assert (result.text, result.stats.rounds) == (record.text, len(record.rounds))


def test_a_draft_of_the_targets_own_layers(bench, pair):
    target = pair[0]
    finished, records, _ = bench(pairs={"target": target, "draft": "self:0"})
    assert finished and not any(record.error for record in records)
    assert any(accepted for r in records for accepted, _, _ in r.rounds)
    finished, records, _ = bench(pairs={"target": target, "draft": "self:0"})  # all there
    assert finished and len(records) == 9


def test_auto(bench):
    _, records, _ = bench(methods=["ar", "auto"], temperature=0.0)
    texts = {name: [r.text for r in records if r.cell.method == name] for name in ("ar", "auto")}
    assert len(texts["auto"]) == 3 and texts["auto"] == texts["ar"]
    drafted = [r for r in records if r.cell.method == "auto"]
    assert all((r.cell.num_drafts, r.cell.draft_length) == (0, 0) for r in drafted)
    assert any(calls[1:] for r in drafted for calls in r.calls)  # a new pair's draft is tried


def test_auto_learns_from_what_is_recorded_alone(bench, monkeypatch):
    real, learnt = AutoController.learn, []

    def learn(self, rounds, *seconds):
        learnt.extend(rounds)
        real(self, rounds, *seconds)

    monkeypatch.setattr(AutoController, "learn", learn)
    _, records, _ = bench(methods="auto", temperature=[0.0, 1.0])
    assert len(learnt) == sum(len(r.rounds) for r in records)


def test_interleaved(bench):
    _, _, listener = bench()
    methods = [method for method, _ in listener.order]
    assert [methods[i : i + 3] for i in (0, 3, 6)] == [
        ["ar", "token", "spectr-gbv"],
        ["token", "spectr-gbv", "ar"],
        ["spectr-gbv", "ar", "token"],
    ]
    examples = [example for _, example in listener.order]
    assert all(len(set(examples[i : i + 3])) == 1 for i in (0, 3, 6))


@pytest.mark.parametrize("batch", [1, 2])
def test_interrupted_and_resumed(bench, tmp_path, batch):
    _, whole, _ = bench(out=tmp_path / "whole", batch=batch, repetitions=2)
    asked = 0

    def interrupted():
        nonlocal asked
        asked += 1
        return asked % 40 == 0

    sessions = 0
    finished = False
    while not finished:
        finished, records, listener = bench(interrupted, batch=batch, repetitions=2)
        sessions += 1
        assert len({r.key for r in records}) == len(records)  # nothing twice
    assert sessions > 2
    assert measured(records) == measured(whole)
    assert len(read_manifest(tmp_path / "run")["sessions"]) == sessions
    finished, again, listener = bench(batch=batch, repetitions=2)
    assert finished and again == records and listener.order == []


def test_killed_while_writing(bench, tmp_path):
    _, whole, _ = bench()
    file = tmp_path / "run" / "records.jsonl"
    content = file.read_bytes()
    file.write_bytes(content[:-25])  # the last line was cut off
    _, records, listener = bench()
    assert len(listener.order) == 1
    assert measured(records) == measured(whole)


def test_leaving_midway_frees_the_folder(bench, monkeypatch):
    decode, calls = ours.EngineContestant.decode, 0

    def dying(self, *arguments):
        nonlocal calls
        calls += 1
        if calls == 7:
            raise SystemExit
        return decode(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(ours.EngineContestant, "decode", dying)
        bench()
    finished, records, listener = bench()
    assert finished and len(records) == len({r.key for r in records}) == 9
    assert 0 < len(listener.order) < 9


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"temperature": 0.5}, r"config.temperature was \[1.0\] and now is \[0.5\]"),
        ({"methods": ["ar"]}, "config.methods was"),
        ({"seed": 7}, "config.seed was 0 and now is 7"),
    ],
)
def test_another_run_is_refused(bench, changes, problem):
    bench(prompts=1, methods=["ar", "token"])
    with pytest.raises(InvalidInput, match=f"holds another run: {problem}"):
        bench(**{"prompts": 1, "methods": ["ar", "token"], **changes})


def test_changed_prompts_are_refused(bench, prompts):
    bench(prompts=1, methods="ar")
    lines = prompts.read_text(encoding="utf-8")
    prompts.write_text(lines.replace('prompt": "', 'prompt": "Oh! '), encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"data\.file:.*sha256 was"):
        bench(prompts=1, methods="ar")


def test_what_matters_of_a_manifest():
    old = {
        "config": {"data_dir": "/a", "seed": 0},
        "machine": {"cpu": "slow", "memory": 1},
        "sessions": [{"started": "then"}],
    }
    moved = {
        "config": {"data_dir": "/b", "seed": 0},
        "machine": {"cpu": "slow", "memory": 2},
        "sessions": [],
    }
    assert difference(old, moved) == ""
    faster = {**moved, "machine": {"cpu": "fast", "memory": 1}}
    assert difference(old, faster) == "machine.cpu was 'slow' and now is 'fast'"


def test_manifest(bench, tmp_path, pair):
    bench(prompts=2, methods="ar")
    manifest = read_manifest(tmp_path / "run")
    assert set(manifest["versions"]) == {"multidraft", "torch", "transformers", "python"}
    assert manifest["machine"]["cores"] >= 1 and manifest["machine"]["memory"] > 10**8
    assert len(manifest["models"][pair[0]]["model.safetensors"]) == 64
    (data,) = manifest["data"].values()
    assert data["prompts"] == 2
    assert set(manifest["sessions"][0]) == {"started", "revision"}


def test_the_list_of_a_drafts_head_is_kept_to(bench, pair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.npz"
    tokenizer = load_model(pair[1], dtype="float32", slots=1).tokenizer
    write_list(file, range(1, 200), tokenizer, "tiny")
    target, draft = pair
    pairs = {"target": target, "draft": draft, "draft_head": "mine.npz@150"}
    bench(pairs=pairs, prompts=1, methods="token")
    manifest = read_manifest(tmp_path / "run")
    assert manifest["config"]["pairs"][0]["draft_head"] == f"{file}@150"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert manifest["models"][str(file)] == {"mine.npz": digest}
    bench(pairs=pairs, prompts=1, methods="token")
    write_list(file, range(2, 201), tokenizer, "tiny")
    with pytest.raises(InvalidInput, match=r"holds another run: models\..*mine\.npz was"):
        bench(pairs=pairs, prompts=1, methods="token")
    file.unlink()
    with pytest.raises(InvalidInput, match=r"Cannot read the list of tokens .*mine\.npz: No such"):
        bench(pairs=pairs, prompts=1, methods="token")


def test_no_folder_of_ours(bench, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("…")
    with pytest.raises(InvalidInput, match="not empty and no run's folder"):
        bench(out=tmp_path / "thesis")


def test_two_at_once(bench, tmp_path):
    (tmp_path / "run").mkdir()
    with FileLock(tmp_path / "run" / ".lock"), pytest.raises(InvalidInput, match="Another process"):
        bench()


def test_broken_records(bench, tmp_path):
    bench(prompts=1, methods="ar")
    file = tmp_path / "run" / "records.jsonl"
    file.write_text("{}\n" + file.read_text())
    with pytest.raises(InvalidInput, match=r"records.jsonl line 1 is no record"):
        bench(prompts=1, methods="ar")


@pytest.mark.parametrize("batch", [1, 3])
def test_a_prompt_that_is_too_long(bench, prompts, batch):
    with prompts.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "epic", "prompt": "word " * 60}) + "\n")
    finished, records, _ = bench(batch=batch, methods=["ar", "token"])
    assert finished and len(records) == 8
    failed = [r for r in records if r.error]
    assert {r.example for r in failed} == {"epic"}
    assert all("exceed the context" in r.error and r.tokens == 0 for r in failed)


def test_a_peer_refuses_it_too(bench, prompts):
    prompts.write_text(json.dumps({"id": "epic", "prompt": "word " * 60}) + "\n")
    _, (record,), _ = bench(methods="transformers:plain")
    assert "exceed the context" in record.error


def test_invalid_logits_cost_one_prompt_of_a_batch(bench, monkeypatch):
    real, sizes = ours.EngineContestant._together, []

    def together(self, prompts, params, interrupted):
        sizes.append(len(prompts))
        if any(len(prompt) == len("User: 2 + 2 =\nBot:") for prompt in prompts):
            raise InvalidLogits("The logits hold NaN.")
        return real(self, prompts, params, interrupted)

    monkeypatch.setattr(ours.EngineContestant, "_together", together)
    finished, records, _ = bench(batch=3, methods="token")
    assert finished
    errors = {record.example: record.error for record in records}
    assert errors == {"river": "", "list": "", "sum": "The logits hold NaN."}
    assert sizes[-1] == 2  # those that are good: with times of a batch


def test_logits_that_are_invalid_together_alone(bench, monkeypatch):
    real = ours.EngineContestant._together

    def together(self, prompts, params, interrupted):
        if len(prompts) > 1:
            raise InvalidLogits("The logits hold NaN.")
        return real(self, prompts, params, interrupted)

    monkeypatch.setattr(ours.EngineContestant, "_together", together)
    _, records, _ = bench(batch=3, methods="token")
    assert [r.error for r in records] == ["The logits hold NaN."] * 3


def test_out_of_memory_costs_the_batch(bench, monkeypatch):
    """Its prompts alone would fit, but their times would not be a batch's."""
    real, sizes = ours.EngineContestant._together, []

    def together(self, prompts, params, interrupted):
        sizes.append(len(prompts))
        if len(prompts) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB.")
        return real(self, prompts, params, interrupted)

    monkeypatch.setattr(ours.EngineContestant, "_together", together)
    finished, records, _ = bench(batch=[3, 1], methods="token")
    assert finished
    assert sizes == [3, 3, 1, 1, 1, 1]  # each with its warm-up
    errors = {(r.cell.batch, r.error, r.tokens > 0) for r in records}
    assert errors == {(1, "", True), (3, "CUDA out of memory. Tried to allocate 2 GiB.", False)}


def test_a_part_of_a_batch_is_decoded_among_all_of_it(bench, tmp_path, monkeypatch):
    _, whole, _ = bench(batch=3, methods="token")
    file = tmp_path / "run" / "records.jsonl"
    first, *_ = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text(first, encoding="utf-8")
    real, sizes = ours.EngineContestant._together, []

    def together(self, prompts, *rest):
        sizes.append(len(prompts))
        return real(self, prompts, *rest)

    monkeypatch.setattr(ours.EngineContestant, "_together", together)
    _, records, listener = bench(batch=3, methods="token")
    assert set(sizes) == {3} and len(listener.order) == 2
    assert measured(records) == measured(whole)


def test_chat_without_a_template(bench, pair, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(pair[0], bare)
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(InvalidInput, match="no chat template"):
        bench(pairs={"target": str(bare)}, methods="ar", chat=True)


def test_peers(bench, pair):
    _, records, _ = bench(
        methods=["ar", "transformers:plain", "transformers:assisted", "transformers:lookup"],
        temperature=0,
        draft_length=3,
    )
    texts = {}
    for record in records:
        assert record.error == ""
        texts.setdefault(record.example, set()).add(
            (record.text, record.tokens, record.finish_reason)
        )
        assert record.first_token > 0
        assert set(record.seconds) == {"draft", "target", "verify", "other"}
        if record.cell.method.startswith("transformers"):
            assert record.rounds == []
            assert record.first_token + sum(record.gaps) <= record.seconds["other"] + 1e-3
    assert all(len(found) == 1 for found in texts.values())  # greedy: all agree
    plain = next(r for r in records if r.cell.method == "transformers:plain")
    assert len(plain.gaps) == plain.tokens - 1


def test_peers_draw_by_their_seed(bench, tmp_path):
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first, again, other = (
        bench(out=tmp_path / name, methods="transformers:assisted", seed=seed)[1]
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert measured(first) == measured(again)
    assert {r.text for r in first} != {r.text for r in other}
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_other_drafters(bench, drafter):
    _, records, _ = bench(
        methods=f"{drafter}+traversal", num_drafts=2, draft_length=3, prompts=2, batch=2
    )
    assert all(r.error == "" and r.rounds for r in records)
