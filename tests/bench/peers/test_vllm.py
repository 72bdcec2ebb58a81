"""vLLM in a process of its own, with a module in its place; and itself, where there is one."""

from __future__ import annotations

import json
import os
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from multidraft.audit.testmodels import build_pair
from multidraft.bench.folder import read_manifest
from multidraft.bench.manifest import difference
from multidraft.bench.peers import vllm_engines
from multidraft.bench.peers.installed import vllm_installed
from multidraft.errors import EngineError, InvalidInput
from tests.bench.peers.conftest import children


@pytest.fixture(autouse=True)
def asked_anew():
    vllm_installed.cache_clear()


@pytest.fixture
def free_memory(monkeypatch):
    """Sets what the machine is to have free, in GiB at a moment."""

    def set_to(amount):
        def memory():
            return SimpleNamespace(available=amount() * 2**30)

        monkeypatch.setattr(vllm_engines, "psutil", SimpleNamespace(virtual_memory=memory))

    return set_to


@pytest.fixture(autouse=True)
def enough_memory(free_memory):
    free_memory(lambda: 64)


def test_records(bench, vllm, tmp_path):
    before = children()
    finished, records, _ = bench(
        methods=["vllm:plain", "vllm:draft@3", "vllm:ngram"], temperature=0.5, prompts=2
    )
    assert finished and children() <= before
    shapes = {(r.cell.method, r.cell.num_drafts, r.cell.draft_length) for r in records}
    assert shapes == {("vllm:plain", 0, 0), ("vllm:draft", 1, 3), ("vllm:ngram", 1, 4)}
    for record in records:
        tokens = [(record.seed + 7 * i) % 257 for i in range(10)]
        tokens = tokens[: tokens.index(0) + 1] if 0 in tokens else tokens
        assert record.error == "" and record.rounds == []
        assert record.tokens == len(tokens) and record.text
        assert record.finish_reason == ("stop" if 0 in tokens else "length")
        assert len(record.gaps) == (record.tokens + 1) // 2 - 1  # two tokens a step
        assert min(record.first_token, *record.gaps) > 0.001
        assert record.first_token + sum(record.gaps) <= record.seconds["other"] + 1e-3
        assert 0 < record.peak_memory < psutil.Process().memory_info().rss / 2  # its own
    versions = read_manifest(tmp_path / "run")["versions"]
    assert versions["vllm"].startswith("vllm-fake 9.1 (torch 2.")


def test_what_vllm_is_told(bench, vllm, pair):
    _, (record,), _ = bench(methods="vllm:draft@3", temperature=0.5, prompts=1)
    ((_, engine),) = vllm.noted("engine")
    assert engine["speculative_config"] == {
        "method": "draft_model",
        "model": pair[1],
        "num_speculative_tokens": 3,
        "draft_sample_method": "greedy",
    }
    told = {"model": pair[0], "dtype": "float32", "max_model_len": 256, "threads": "1"}
    told |= {"enable_prefix_caching": False, "generation_config": "vllm", "max_num_seqs": 1}
    assert {key: engine[key] for key in told} == told
    request = vllm.noted("request")[-1][1]
    told = {"seed": record.seed, "temperature": 0.5, "max_tokens": 10, "n": 1, "top_k": 0}
    told |= {"top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "stop_token_ids": [0]}
    assert {key: request[key] for key in told} == told
    assert len(request["prompt_token_ids"]) == record.prompt_tokens


def test_one_process_per_way_of_drafting(bench, vllm):
    bench(methods=["vllm:plain", "vllm:draft@2", "vllm:draft@3"], temperature=[0, 1])
    assert [given["speculative_config"] and given["speculative_config"]["num_speculative_tokens"]
            for _, given in vllm.noted("engine")] == [None, 2, 3]  # fmt: skip


def test_the_last_used_makes_room(bench, vllm, free_memory):
    """There is memory for two of three, which take turns; were it the first used, ten would be
    started for these three slices."""
    before = children()
    free_memory(lambda: 2 - len(children() - before))
    methods = ["vllm:plain", "vllm:draft@2", "vllm:draft@3"]
    _, records, _ = bench(methods=methods, temperature=[0, 1], max_tokens=9)
    assert len(records) == 18 and not any(r.error for r in records)
    assert len(vllm.noted("engine")) == 6
    # Each engine's first tokens are not part of any record.
    first = {}
    for process, request in vllm.noted("request"):
        first.setdefault(process, request["max_tokens"])
    assert list(first.values()) == [8] * 6


def test_no_room_at_all(bench, vllm, free_memory):
    free_memory(lambda: 0.25)
    message = r"^vllm:plain: It takes about 0\.8 GiB of memory and 0\.2 GiB are free; "
    with pytest.raises(EngineError, match=message):
        bench(methods="vllm:plain")


@pytest.mark.parametrize(
    ("fault", "error"), [("refuse", "ValueError: no such thing"), ("break", "RuntimeError: a ke")]
)
def test_a_request_that_fails(bench, vllm, fault, error):
    vllm.goes_wrong(fault)
    finished, records, _ = bench(methods="vllm:plain", max_tokens=9)
    assert finished and len(vllm.noted("engine")) == 1
    assert all(r.error.startswith(f"vLLM failed: {error}") and r.tokens == 0 for r in records)
    aborted = [[["0-internal"], True]] * 3
    assert fault == "refuse" or [given for _, given in vllm.noted("abort")] == aborted


def test_a_process_that_dies(bench, vllm):
    before = children()
    vllm.goes_wrong("die")
    message = r"^vllm:draft, L 4: It ended with exit status 1: out of memory$"
    with pytest.raises(EngineError, match=message):
        bench(methods=["ar", "vllm:draft"], max_tokens=9)
    assert children() <= before
    vllm.goes_wrong("")
    finished, records, _ = bench(methods=["ar", "vllm:draft"], max_tokens=9)
    assert finished and len(records) == 6


def test_interrupted_at_work(bench, vllm):
    before, started = children(), time.monotonic()
    vllm.goes_wrong("hang")

    def interrupted():
        return any(request["max_tokens"] == 9 for _, request in vllm.noted("request"))

    finished, records, _ = bench(interrupted, methods="vllm:plain", max_tokens=9)
    assert not finished and records == []
    assert children() <= before and time.monotonic() - started < 30


def test_another_device(bench, vllm):
    vllm.goes_wrong("gpu")
    with pytest.raises(EngineError, match="It runs on cuda and the models are on cpu"):
        bench(methods="vllm:plain")


def test_where_there_is_none(bench, tmp_path):
    message = "has no vLLM; name the Python of an environment that has with --vllm-python"
    with pytest.raises(InvalidInput, match=message):
        bench(methods="vllm:plain", vllm_python=sys.executable)
    with pytest.raises(InvalidInput, match="/nowhere/python cannot be run: No such file"):
        bench(methods="vllm:plain", vllm_python="/nowhere/python")
    assert not (tmp_path / "run").exists()


def test_the_environment_may_move_but_not_change():
    old = {"config": {"vllm_python": "/a"}, "versions": {"vllm": "vllm 9.1 (torch 2.13)"}}
    new = {"config": {"vllm_python": "/b"}, "versions": {"vllm": "vllm 9.1 (torch 2.13)"}}
    assert difference(old, new) == ""
    new["versions"]["vllm"] = "vllm 9.2 (torch 2.13)"
    assert "versions.vllm was 'vllm 9.1" in difference(old, new)


@pytest.mark.skipif(
    "MULTIDRAFT_VLLM_PYTHON" not in os.environ,
    reason="MULTIDRAFT_VLLM_PYTHON names the Python of an environment with vLLM",
)
def test_vllm_itself(bench, prompts, tmp_path):
    models = build_pair(tmp_path / "models")  # heads of 16, as the other pair has, it refuses
    prompts.write_text("".join(json.dumps({"prompt": each}) + "\n" for each in ("abca", "hgfed")))
    _, records, _ = bench(
        pairs={"target": str(models.target), "draft": str(models.draft)},
        methods=["ar", "vllm:plain", "vllm:draft@3", "vllm:ngram@3"],
        temperature=0,
        max_tokens=30,
        vllm_python=os.environ["MULTIDRAFT_VLLM_PYTHON"],
    )
    for example in {record.example for record in records}:
        same = [record for record in records if record.example == example]
        assert [record.error for record in same if record.error] == []
        assert len({(r.text, r.tokens, r.finish_reason) for r in same}) == 1  # greedy: all agree
    rounds = {record.cell.method: len(record.gaps) + 1 for record in records}
    assert rounds["vllm:plain"] == 30 and rounds["vllm:draft"] < 30
