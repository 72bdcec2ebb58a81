"""Run folders whose answers are made up: how often each method is right is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from multidraft.bench.data import choose, fingerprint, load_examples
from multidraft.bench.records import Cell, Record
from tests.bench.report.synthetic import write_run

PLAIN = (0, 0)


def write_gsm8k(folder: Path, prompts: int) -> Path:
    """A GSM8K file of sums, in its published form."""
    folder.mkdir(exist_ok=True)
    rows = [
        {"question": f"What is {i} + {i}?", "answer": f"It is <<{i}+{i}={2 * i}>>.\n#### {2 * i:,}"}
        for i in range(prompts)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "gsm8k.jsonl").write_text(text)
    return folder


def write_humaneval(folder: Path) -> Path:
    """A HumanEval file of one problem, in its published form."""
    folder.mkdir(exist_ok=True)
    row = {
        "task_id": "HumanEval/0",
        "prompt": 'def twice(x):\n    """ Twice x. """\n',
        "entry_point": "twice",
        "canonical_solution": "    return 2 * x\n",
        "test": "def check(candidate):\n    assert candidate(4) == 8\n",
    }
    (folder / "humaneval.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def answer(
    dataset: str, method: str, example: str, text: str, reason: str = "stop", repetition: int = 0
) -> Record:
    """One recorded answer."""
    k, n = PLAIN if method == "ar" else (3, 4)
    cell = Cell("pair", dataset, method, k, n, 1.0)
    seconds = dict.fromkeys(("draft", "target", "verify", "other"), 0.25)
    return Record(
        cell,
        example,
        repetition,
        0,
        prompt_tokens=9,
        tokens=9,
        rounds=[[0, n, 1]] * 9,
        seconds=seconds,
        first_token=0.1,
        gaps=[0.1] * 8,
        finish_reason=reason,
        text=text,
    )


def sums(methods: dict[str, float], prompts: int, repetitions: int = 1, seed: int = 0):
    """Answers to `write_gsm8k`; ``methods`` gives the share of prompts each can solve, the same
    ones for all, and solves in nine of ten answers."""
    rng = np.random.default_rng(seed)
    ease = rng.random(prompts)
    for method, share in methods.items():
        for i in range(prompts):
            for repetition in range(repetitions):
                right = ease[i] < share and rng.random() < 0.9
                text = f"{i} + {i} = {2 * i if right else 2 * i + 1}."
                yield answer("gsm8k", method, f"gsm8k/{i}", text, repetition=repetition)


def make_run(path: Path, data: Path, records, max_tokens: int = 512) -> Path:
    """A run folder with these answers to the files in ``data``."""
    write_run(path, records)
    manifest = json.loads((path / "manifest.json").read_text())
    config = manifest["config"]
    config.update(max_tokens=max_tokens, prompts=10_000, data_dir=str(data))
    manifest["data"] = {
        name: {"sha256": fingerprint(choose(load_examples(name, data), 10_000, 0))}
        for name in config["data"]
        if name in ("gsm8k", "humaneval")
    }
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path
