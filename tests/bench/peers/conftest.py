"""A module in vLLM's place, installed in a folder."""

from __future__ import annotations

import json

import psutil
import pytest

from tests.bench.conftest import bench, pair, prompts

__all__ = ["bench", "pair", "prompts"]

# Emits up to two tokens a step, as vLLM does into one list, and notes what it was given. What it is
# told to do wrong it does: FAULT is "refuse", "break", "die", "hang" or "gpu".
_FAKE = """
import json, os, time
from types import SimpleNamespace

print("INFO starting")
__version__ = "9.1"

def note(what, given):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps([what, os.getpid(), given]) + "\\n")

class SamplingParams:
    def __init__(self, **given):
        self.__dict__.update(given)

class Engine:
    running = None

    def add_request(self, name, prompt, params):
        note("request", {**prompt, **params.__dict__})
        if os.environ["FAULT"] == "refuse" and params.max_tokens == 9:
            raise ValueError("no\\n such thing")
        output = SimpleNamespace(token_ids=[], finish_reason=None)
        self.running = (params, SimpleNamespace(outputs=[output]))
        return name + "-internal"

    def has_unfinished_requests(self):
        return self.running is not None

    def step(self):
        print("INFO a step")
        params, result = self.running
        output = result.outputs[0]
        if os.environ["FAULT"] == "die" and params.max_tokens == 9:
            raise SystemExit("out of memory")
        if os.environ["FAULT"] == "hang" and params.max_tokens == 9:
            time.sleep(60)
        if os.environ["FAULT"] == "break" and output.token_ids and params.max_tokens == 9:
            raise RuntimeError("a kernel")
        time.sleep(0.002)
        for _ in range(2):
            token = (params.seed + 7 * len(output.token_ids)) % 257
            output.token_ids.append(token)
            if token in params.stop_token_ids:
                output.finish_reason = "stop"
            elif len(output.token_ids) == params.max_tokens:
                output.finish_reason = "length"
            if output.finish_reason:
                self.running = None
                break
        return [result]

    def abort_request(self, names, internal):
        note("abort", [names, internal])
        self.running = None

class LLM:
    def __init__(self, **given):
        note("engine", {**given, "threads": os.environ["OMP_NUM_THREADS"]})
        self.llm_engine = Engine()
"""
_PLATFORM = """
import os
from types import SimpleNamespace
current_platform = SimpleNamespace(device_type="cuda" if os.environ["FAULT"] == "gpu" else "cpu")
"""


@pytest.fixture
def vllm(tmp_path, monkeypatch):
    """Installs it for the processes to come; sets what goes wrong, and reads what it noted."""
    return Vllm(tmp_path / "packages", monkeypatch)


class Vllm:
    def __init__(self, folder, monkeypatch):
        (folder / "vllm").mkdir(parents=True)
        (folder / "vllm" / "__init__.py").write_text(_FAKE)
        (folder / "vllm" / "platforms.py").write_text(_PLATFORM)
        info = folder / "vllm_fake-9.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-fake\nVersion: 9.1\n")
        (info / "top_level.txt").write_text("vllm\n")
        self._notes = folder / "notes"
        self._environment = monkeypatch
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.setenv("NOTES", str(self._notes))
        self.goes_wrong("")

    def goes_wrong(self, fault):
        self._environment.setenv("FAULT", fault)

    def noted(self, kind):
        """What it was given, in order, and by which process."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        notes = [json.loads(line) for line in lines]
        return [(process, given) for what, process, given in notes if what == kind]


def children():
    """Processes this one started and has not reaped."""
    return {child.pid for child in psutil.Process().children()}
