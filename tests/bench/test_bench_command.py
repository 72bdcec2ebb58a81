"""`multidraft bench run` as a user meets it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
import yaml

from multidraft.bench.folder import read_records
from multidraft.cli.bench import _Shown


@pytest.fixture
def config(pair, prompts, tmp_path):
    """A configuration file."""
    path = tmp_path / "run.yaml"
    values = {
        "pairs": [{"name": "tiny", "target": pair[0], "draft": pair[1]}],
        "data": [f"file:{prompts}"],
        "methods": ["ar", "block"],
        "dtype": "float32",
        "max_tokens": 8,
    }
    path.write_text(yaml.safe_dump(values))
    return str(path)


def test_flags_alone(run, pair, prompts, tmp_path):
    out = tmp_path / "out"
    options = f"-K 2,3 -L 3 -T 0.5 --prompts 2 -m 6 --dtype float32 --raw --out {out}".split()
    code, said, _ = run(
        *("bench", "run", "--target", pair[0], "--draft", pair[1], "--data", f"file:{prompts}"),
        *("--methods", "ar,spectr", *options),
    )
    assert code == 0
    assert said == f"6 generations recorded in {out}\n"
    records = list(read_records(out))
    assert {(r.cell.num_drafts, r.cell.temperature) for r in records} == {
        (0, 0.5),
        (2, 0.5),
        (3, 0.5),
    }
    assert max(r.prompt_tokens for r in records) <= len("The river ran")  # raw: no template


def test_config_with_an_option_besides(run, config, tmp_path):
    code, said, _ = run("bench", "run", "-c", config, "--prompts", "1", "-o", str(tmp_path / "out"))
    assert code == 0 and said.startswith("2 generations")


def test_failures_are_told(run, config, tmp_path):
    out = ("-o", str(tmp_path / "out"))
    code, said, err = run("bench", "run", "-c", config, "-m", "250", *out)
    assert code == 1 and "(6 of this session's failed" in said
    assert err.strip() == "Not one of them succeeded."
    (first, *_) = read_records(tmp_path / "out")
    assert "(--max-length)" in first.error


def test_some_failures_are_no_failure(run, config, prompts, tmp_path):
    with prompts.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "epic", "prompt": "word " * 60}) + "\n")
    code, said, err = run("bench", "run", "-c", config, "-o", str(tmp_path / "out"))
    assert code == 0 and "(2 of this session's failed" in said and err.strip() == ""


def test_a_context_can_be_reserved(run, config, tmp_path):
    out = str(tmp_path / "out")
    code, _, _ = run("bench", "run", "-c", config, "--max-length", "50", "-m", "30", "-o", out)
    failed = {r.example: r.error for r in read_records(tmp_path / "out") if r.error}
    assert code == 0 and "of 50 tokens" in failed["list"] and "sum" not in failed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "'pairs' is missing"),
        (("--draft", "x"), "--draft without --target"),
        (("-K", "three"), "-K takes numbers"),
        (("--target", "x", "--data", "gsm8k", "--methods", "token"), "needs a draft model"),
        (("--config", "nowhere.yaml"), "Cannot read the configuration nowhere.yaml"),
    ],
)
def test_misuse(run, tmp_path, arguments, message):
    code, out, err = run("bench", "run", "--out", str(tmp_path / "out"), *arguments)
    assert code == 2 and out == ""
    assert message in err and "Traceback" not in err


def test_ctrl_c(run, config, tmp_path, monkeypatch):
    out = tmp_path / "out"
    recorded = _Shown.recorded

    def and_press(shown, records):
        recorded(shown, records)
        if shown.done == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(_Shown, "recorded", and_press)
        code, said, err = run("bench", "run", "-c", config, "--out", str(out))
    assert code == 130 and said == ""
    assert "Stopped: 2 of 6 generations are recorded" in err
    assert f"multidraft bench run --out {out}" in err
    code, said, _ = run("bench", "run", "--out", str(out))
    assert code == 0 and said.startswith("6 generations")


def test_killed_and_resumed(run, config, tmp_path):
    out = tmp_path / "out"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "multidraft", "bench", "run"),
            *("-c", config, "-o", str(out), "--repetitions", "15"),
        ],
        stderr=subprocess.DEVNULL,
    )
    records = out / "records.jsonl"
    while process.poll() is None and not (records.is_file() and records.stat().st_size):
        time.sleep(0.02)
    process.kill()
    process.wait(timeout=30)
    before = list(read_records(out))
    assert 0 < len(before) < 90
    code, said, _ = run("bench", "run", "--out", str(out))
    assert code == 0 and said.startswith("90 generations recorded")
    after = list(read_records(out))
    assert after[: len(before)] == before
    assert len({record.key for record in after}) == len(after) == 90
