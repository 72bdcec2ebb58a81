"""`multidraft tune` as a user meets it."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from multidraft import SamplingParams, load_model
from multidraft.bench.tune.contest import Contest
from multidraft.bench.tune.run import Tuner

PROMPTS = ["The river ran", "Write a list:", "2 + 2 =", "abc abc abc", "Sing", "Who are you?"]
PROMPTS += ["Once upon", "a, b, c,"]


@pytest.fixture
def tune(run, pair, tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("".join(f"{prompt}\n" for prompt in PROMPTS))

    def command(*arguments: str, draft: str = pair[1]):
        models = ("--target", pair[0], "--draft", draft, "--dtype", "float32")
        return run("tune", *models, "--prompts", str(file), "-m", "16", *arguments)

    return command


@pytest.fixture(scope="module")
def noise(pair, tmp_path_factory):
    """A draft that has nothing to do with the target."""
    folder = tmp_path_factory.mktemp("noise") / "draft"
    shutil.copytree(pair[1], folder)
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(folder), dtype=torch.float32
    )
    model.save_pretrained(folder)
    return str(folder)


def test_table_and_a_command_that_runs(tune, run):
    code, said, err = tune("-T", "0.5", "--max-length", "200")
    assert code == 0 and "too few" not in err
    lines = said.splitlines()
    assert lines[0].split()[:4] == ["setting", "K", "L", "predicted"]
    assert {line.split()[0] for line in lines[1:4]} >= {"ar", "auto"}
    assert "Measured on 8 prompts" in said and max(map(len, lines[:4])) <= 80
    command = shlex.split(lines[-1])
    assert command[:2] == ["multidraft", "generate"] and command[-6:-2] == [
        *("--temperature", "0.5", "--dtype", "float32"),
    ]
    assert command[-2:] == ["--max-length", "200"]
    assert run(*command[1:], "-m", "4", "Hello")[0] == 0


def test_json(tune):
    code, said, err = tune("--json", "--count", "8", "--raw", "--temperature", "0")
    assert code == 0 and err.strip() == ""
    found = json.loads(said)
    assert found["prompts"] == 8 and found["left_out"] == [] and not found["interrupted"]
    rows = {(s["method"], s["draft_length"]): s for s in found["settings"]}
    assert rows["ar", 0]["speed_up"]["value"] == 1.0
    assert rows["auto", 0]["predicted"]["value"] is None
    assert rows["auto", 0]["speed_up"]["low"] < rows["auto", 0]["speed_up"]["high"]
    assert rows["spectr-gbv", 4]["predicted"]["value"] > 0
    measured = [s for s in found["settings"] if s["tokens_per_second"]["value"] is not None]
    assert 3 <= len(measured) <= 5
    assert "--raw" in found["recommended"]["command"]


def test_few_prompts_are_told_of_before_anything_is_measured(tune):
    code, said, err = tune("--json", "--count", "2")
    assert code == 0 and "give 8 or more (--count 8" in err
    recommended = json.loads(said)["recommended"]
    assert recommended["method"] == "ar" and "(--count " in recommended["reason"]


def test_a_longer_context_is_what_it_takes(tune):
    code, _, err = tune("-m", "30", "--max-length", "40")
    assert code == 2 and "of 40 tokens" in err and "(--max-length)" in err


def test_noise_is_never_recommended(tune, noise):
    code, said, _ = tune("--json", draft=noise)
    assert code == 0
    recommended = json.loads(said)["recommended"]
    assert recommended["method"] in ("ar", "auto", "lookup+traversal")
    fixed = [s for s in json.loads(said)["settings"] if s["method"] == "block"]
    assert all(s["predicted"]["value"] is not None for s in fixed)


def press_after(monkeypatch, prompts):
    """Ctrl-C in the course of the prompt after so many of the measurement; of the recording,
    where that is 0."""
    decode, done = Contest.decode, []

    def and_press(self, number, prompt, stop, told):
        if len(done) == prompts:
            signal.raise_signal(signal.SIGINT)
        done.append(number)
        return decode(self, number, prompt, stop, told)

    monkeypatch.setattr(Contest, "decode", and_press)


def test_ctrl_c(tune, monkeypatch):
    with monkeypatch.context() as patch:
        press_after(patch, 2 + 3)  # two recorded prompts
        code, said, err = tune()
    assert code == 130 and "Traceback" not in err
    assert "Measured on 3 prompts" in said and "Only 3 prompts measured" in said
    assert "Too few for intervals" in said
    with monkeypatch.context() as patch:
        press_after(patch, 0)
        code, said, err = tune()
    assert code == 130 and "No prompt was measured" in said and "Traceback" not in err


def test_prompts_that_cannot_be_decoded(tune):
    code, said, err = tune("-m", "250")
    assert code == 2 and said == "" and "No prompt could be decoded" in err and "exceed" in err
    assert len(err.strip().splitlines()) == 1


class Clock:
    """A `Timer` of 100 s."""

    left = 100.0

    def stop(self):
        return self.left <= 0


def test_no_prompt_is_begun_that_would_not_fit(pair, monkeypatch):
    decode, clock, done = Contest.decode, Clock(), []

    def slow(self, number, *rest):
        clock.left -= 30
        done.append(number)
        return decode(self, number, *rest)

    monkeypatch.setattr(Contest, "decode", slow)
    models = [load_model(name, dtype="float32", slots=1) for name in pair]
    told = []
    params = SamplingParams(max_tokens=4, ignore_eos=True)
    found = Tuner(*models, [[5, 6, 7]] * 6, params, clock, lambda *each: told.append(each)).run()
    assert done == [5, 0, 1]  # a second recording would leave too little for measuring
    assert found.figures.prompts == 2 and clock.left == 10
    assert told[0] == ("Measuring what calls cost", 100)
    assert told[-1][0].startswith("Measuring on prompt 2: ") and told[-1][1] == 40


def test_the_time_is_kept(tune, monkeypatch):
    def slow(self, number, prompt, stop, told):
        while not stop():
            pass

    monkeypatch.setattr(Contest, "decode", slow)
    code, said, err = tune("--max-time", "1")
    assert code == 2 and said == "" and "give more --max-time" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--prompts", "nowhere.txt"), "There is no file nowhere.txt"),
        (("--prompts", "empty.txt"), "empty.txt has no prompts"),
        (("--prompts", "prompts.csv"), "not prompts.csv"),
        (("--prompts", "broken.jsonl"), "broken.jsonl line 1: not JSON"),
        (("--data", "humanevil"), "Unknown data set 'humanevil'; did you mean 'humaneval'"),
        (("--data", "gsm8k", "--data-dir", "nowhere"), "There is no folder nowhere"),
        (("--data", "gsm8k", "--prompts", "x.txt"), "either --prompts FILE or --data NAME"),
        ((), "either --prompts FILE or --data NAME"),
        (("--prompts", "one.txt", "--data-dir", "."), "--data-dir goes with --data"),
        (("--prompts", "one.txt", "-T", "-1"), "temperature"),
    ],
)
def test_bad_input(run, pair, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name, text in (("empty.txt", "\n\n"), ("one.txt", "Hi\n"), ("broken.jsonl", "{\n")):
        Path(name).write_text(text)
    code, said, err = run("tune", "--target", pair[0], "--draft", pair[1], *arguments)
    assert code == 2 and said == ""
    assert message in err and len(err.strip().splitlines()) == 1
