"""Memory is counted per generation where the device can, and told as what it is."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from multidraft.bench.ours import EngineContestant
from multidraft.bench.report.load import load_run
from multidraft.bench.report.memory import memory
from multidraft.bench.run import forget_peak_memory, peak_memory
from tests.bench.report.synthetic import run_records, write_run


class _Gpu:
    """What torch counts of a GPU, for want of one."""

    def __init__(self):
        self.used = self.peak = 3

    def use(self, most):
        self.peak = max(self.peak, most)

    def reset(self, device):
        assert device.type == "cuda"
        self.peak = self.used


def test_each_generation_has_its_own_peak(bench, monkeypatch):
    gpu = _Gpu()
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", gpu.reset)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: gpu.peak)
    # The models stay on the CPU; only who counts their memory is exchanged.
    cuda = torch.device("cuda", 0)
    for counter in (forget_peak_memory, peak_memory):
        on_gpu = partial(lambda counter, _: counter(cuda), counter)
        monkeypatch.setattr(f"multidraft.bench.run.{counter.__name__}", on_gpu)
    need = {"ar": 5, "token": 9}
    original = EngineContestant.decode

    def decoding(contestant, *arguments):
        drafts = contestant._decoder.engine.drafter is not None
        gpu.use(need["token" if drafts else "ar"])
        return original(contestant, *arguments)

    monkeypatch.setattr(EngineContestant, "decode", decoding)
    _, records, _ = bench(methods=["token", "ar"])
    assert len(records) == 6
    assert all(record.peak_memory == need[record.cell.method] for record in records)


def test_a_process_has_no_peak_but_its_own():
    cpu = torch.device("cpu")
    before = peak_memory(cpu)
    forget_peak_memory(cpu)
    assert peak_memory(cpu) >= before > 10**7


@pytest.mark.parametrize("device", [None, "cuda:0", "cpu"])
def test_report_tells_methods_apart_on_a_gpu_alone(tmp_path, device):
    records = run_records({"ar": 0.0, "token": 0.6, "spectr": 0.7}, prompts=5)
    size = {"ar": 2, "token": 3, "spectr": 5}
    path = write_run(
        tmp_path, (replace(r, peak_memory=size[r.cell.method] * 10**9) for r in records)
    )
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["machine"]["gpu"] = "a GPU"
    manifest["config"]["device"] = device
    (path / "manifest.json").write_text(json.dumps(manifest))
    table = memory(load_run(path))
    if device == "cpu":
        assert [row["peak"] for row in table.rows] == [5.0]
        assert "upper bound for each" in table.notes[0]
    else:
        assert {row["method"]: row["peak"] for row in table.rows} == size
        assert "GPU memory" in table.notes[0]
