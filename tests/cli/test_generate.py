"""`multidraft generate` as a user meets it, on a tiny real model pair."""

from __future__ import annotations

import io
import json
import re
import signal
import sys

import pytest
import torch

from multidraft import Decoder, SamplingParams, __version__, load_model
from multidraft.draft import ModelDrafter
from multidraft.models.four_bit import can_be_four_bit
from multidraft.verify import VERIFIERS

COMMON = ("--dtype", "float32", "--max-tokens", "20", "--seed", "3", "--ignore-eos")


@pytest.fixture
def generate(run, pair):
    target, draft = pair

    def command(*arguments: str, drafted: bool = True, measured: bool = False):
        # A fixed length, as a seed alone does not fix the text where drafting follows the clock.
        drafts = ("--draft", draft, *(() if measured else ("-L", "4"))) if drafted else ()
        return run("generate", "--target", target, *drafts, *COMMON, *arguments)

    return command


def test_text_and_figures(generate, pair):
    code, out, err = generate("--raw", "Once upon", "-T", "0")
    assert code == 0
    target = load_model(pair[0], dtype="float32")
    params = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
    assert out == Decoder(target).generate("Once upon", params)[0].text + "\n"
    assert "20 tokens in" in err and "block efficiency" in err
    assert "seed 3" in err and err.rstrip().endswith("length")


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_every_verifier(generate, pair, verifier):
    code, out, _ = generate("--raw", "hello", "-v", verifier, "-T", "0.7", "--json")
    assert code == 0
    report = json.loads(out)
    assert len(report["token_ids"]) == len(report["origins"]) == 20
    assert report["stats"]["tokens"] == 20 and report["finish_reason"] == "length"
    target, draft = (load_model(folder, dtype="float32") for folder in pair)
    drafter = ModelDrafter(draft, 1 if VERIFIERS[verifier].drafts == "one" else 3, 4)
    params = SamplingParams(temperature=0.7, max_tokens=20, ignore_eos=True, seed=3)
    result = Decoder(target, drafter, verifier).generate("hello", params)[0]
    assert result.token_ids == report["token_ids"]


def test_how_much_to_draft_is_measured(generate):
    """With neither K nor L; greedy output is the plain one whatever is chosen."""
    plain = json.loads(generate("hello", "-T", "0", "--json", drafted=False)[1])
    for how in ((), ("-v", "spectr-gbv"), ("-v", "block")):
        report = json.loads(generate("hello", "-T", "0", "--json", *how, measured=True)[1])
        assert report["token_ids"] == plain["token_ids"]
        assert report["stats"]["drafted"] > 0  # a new pair is tried


@pytest.mark.parametrize(
    ("options", "drafted"),
    [
        (("-v", "hybrid+traversal"), True),
        (("-v", "union+specinfer"), True),
        (("--draft-temperature", "0.7"), True),
        (("-v", "lookup+traversal"), False),
    ],
)
def test_it_is_measured_whoever_drafts(generate, options, drafted):
    out = generate("hello", "--explain", *options, drafted=drafted, measured=True)[1]
    assert re.search("trying the draft|nothing found|lookup", out)


def test_other_drafters(generate):
    """Greedy output is the plain one whoever drafts; lookup needs no draft model."""
    plain = json.loads(generate("hello", "-T", "0", "--json", drafted=False)[1])
    for drafter, drafted in (("hybrid", True), ("union", True), ("lookup", False)):
        options = ("-T", "0", "--json", "-v", f"{drafter}+traversal", "-K", "2")
        code, out, _ = generate("hello", *options, drafted=drafted)
        assert code == 0 and json.loads(out)["token_ids"] == plain["token_ids"]
    code, out, _ = generate("hello", "--compare", "token,hybrid+traversal", "-L", "3")
    assert code == 0 and "hybrid+traversal" in out


def test_drafts_by_other_names(generate, run, pair, tmp_path):
    """Own layers, fewer tokens than all, fewer bits: the text stays the target's."""
    plain = json.loads(generate("hello", "-T", "0", "--json", drafted=False)[1])
    text, frequent = tmp_path / "text.txt", str(tmp_path / "frequent.npz")
    text.write_text("Once upon a time there was a text, and it was counted.")
    assert run("head", pair[1], str(text), "--out", frequent)[0] == 0
    ways = [("self:0",), (pair[1], "--draft-head", f"{frequent}@30")]
    if can_be_four_bit(torch.device("cpu")):
        ways.append((pair[1], "--draft-dtype", "int4"))
    for drafts in ways:
        options = ("-T", "0", "--json", "-L", "3", "--draft", *drafts)
        code, out, _ = generate("hello", *options, drafted=False)
        report = json.loads(out)
        assert code == 0 and report["token_ids"] == plain["token_ids"]
        assert report["stats"]["drafted"] > 0


def test_explain(generate):
    code, out, err = generate("hello", "--explain", measured=True)
    assert code == 0
    assert "round 1: " in out and "trying the draft" in out and "accepted" in out
    assert max(map(len, out.splitlines())) <= 100
    assert "+accepted" in out  # no colours where the output is no terminal
    accepted = sum(int(count) for count in re.findall(r"(\d+) accepted", out))
    assert accepted and len(re.findall(r"(?<=[ ─])\+\S", out)) == accepted
    _, plain, _ = generate("hello", "--explain", drafted=False)
    assert "nothing drafted" in plain
    code, _, err = generate("hello", "--explain", "--json")
    assert code == 2 and "--explain goes with none" in err


def test_plain_decoding_without_a_draft(generate):
    code, out, _ = generate("hello", "--json", drafted=False)
    assert code == 0
    assert json.loads(out)["stats"]["block_efficiency"] == 1.0


def test_the_chat_template_is_used_where_there_is_one(generate):
    chat, raw, as_chat = (
        json.loads(generate("--json", *how)[1])["token_ids"]
        for how in (("Hi",), ("--raw", "Hi"), ("--raw", "User: Hi\nBot:"))
    )
    assert chat == as_chat != raw


def test_prompt_from_file_and_standard_input(generate, tmp_path, monkeypatch):
    (tmp_path / "prompt.txt").write_text("Once upon", encoding="utf-8")
    expected = generate("Once upon")[1]
    assert generate("--file", str(tmp_path / "prompt.txt"))[1] == expected
    monkeypatch.setattr(sys, "stdin", io.StringIO("Once upon"))
    assert generate()[1] == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="utf-8"))
    code, _, err = generate()
    assert code == 2 and "standard input: it is not utf-8 text" in err


def test_show_drafts_prints_the_same_text(generate):
    plain = generate("hello", "-T", "0.5")[1]
    code, coloured, err = generate("hello", "-T", "0.5", "--show-drafts")
    assert code == 0
    assert coloured == plain  # no colours where the output is no terminal
    assert "accepted draft" in err
    maybe = plain[-2] + "###"  # held back to the end: a stop string may begin there
    assert generate("hello", "-T", "0.5", "--show-drafts", "--stop", maybe)[1] == plain


def test_stop_strings(generate):
    text = json.loads(generate("hello", "--json")[1])["text"]
    stop = text[5:8]
    report = json.loads(generate("hello", "--json", "--stop", stop)[1])
    assert report["text"] == text[: text.index(stop)]
    assert report["finish_reason"] == "stop"


def test_compare(generate):
    code, out, _ = generate("hello", "--compare", "token,spectr-gbv", "-L", "3")
    assert code == 0
    lines = out.splitlines()
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("method")) :]
    assert [line.split()[0] for line in table[1:4]] == ["ar", "token", "spectr-gbv"]
    assert "1.00×" in table[1]


def test_compare_as_json(generate):
    rows = json.loads(generate("hello", "--compare", "ar,block,traversal", "--json")[1])
    assert [(r["method"], r["num_drafts"]) for r in rows] == [
        ("ar", 0),
        ("block", 1),
        ("traversal", 3),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hi", "--verifier", "nope"), "Unknown verifier 'nope'"),
        (("hi", "--verifier", "token", "-K", "3"), "takes one draft"),
        (("hi", "--verifier", "hybrid+nope"), "'hybrid+nope': after '+' comes a verifier"),
        (("hi", "--verifier", "hybrid+"), "such as 'hybrid+traversal'"),
        (("hi", "--verifier", "hybrid"), "name its verifier too: 'hybrid+traversal'"),
        (("hi", "--verifier", "ar"), "'ar' is plain decoding"),
        (("hi", "--verifier", "hybrid+token"), "does not take the trees of 'hybrid'"),
        (("hi", "--verifier", "auto"), "Unknown verifier 'auto'"),
        (("hi", "-v", "hybrid+traversal", "--draft-temperature", "1"), "for independent drafts"),
        (("hi", "--draft", "self:7"), "from 0 to 1 in rising order"),
        (("hi", "--draft", "self:none.json"), "Cannot read the layers of self:none.json"),
        (("hi", "--draft", "self:0", "--draft-head", "9"), "shares the target's head"),
        (("hi", "--draft", "self:0", "--draft-dtype", "int4"), "shares the target's weights"),
        (("hi", "--draft", " "), "The draft's name is empty"),
        (("hi", "--target", "self:0"), "can only be a draft"),
        (("hi", "--draft-head", "none.npz"), "There is no list of tokens at none.npz"),
        (("hi", "--draft-head", ""), "The draft's head is empty"),
        (("hi", "--draft-dtype", "int2"), "Unknown dtype 'int2'"),
        (("hi", "--dtype", "int4"), "int4 is for drafts alone"),
        (("hi", "--temperature", "-1"), "temperature"),
        (("hi", "--top-p", "0"), "top_p"),
        (("hi", "--max-tokens", "100000"), "exceed"),
        (("",), "empty"),
        (("hi", "--file", "x"), "not both"),
        (("--file", "/no/such/file"), "Cannot read the prompt"),
        (("hi", "--compare", "ar,nope"), "Unknown verifier 'nope'"),
        (("hi", "--compare", "ar", "--verifier", "token"), "--compare"),
        (("hi", "--json", "--show-drafts"), "--show-drafts"),
        (("hi", "--dtype", "int8"), "dtype"),
        (("hi", "--device", "nonsense"), "evice"),
    ],
)
def test_errors_are_one_line(generate, arguments, message):
    code, out, err = generate(*arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1 and "Traceback" not in err


def test_refused_before_the_models_load(generate, monkeypatch):
    def never(*_, **__):
        raise AssertionError("loaded")

    monkeypatch.setattr("multidraft.models.load_model", never)
    for wrong in (
        ("--draft-dtype", "int2"),
        ("--draft", ""),
        ("--draft", "self:0", "--draft-dtype", "int4"),
        ("--draft-head", ""),
        ("-v", "ar"),
        ("--draft-dtype", "int4", "--device", "meta"),
        ("-v", "lookup+traversal"),  # which asks no draft
        ("-v", "hybrid+traversal", "--draft-temperature", "1"),
    ):
        assert generate("hi", *wrong)[0] == 2


def test_options_that_need_a_draft(generate):
    alone = (("--draft-temperature", "1"), ("--draft-dtype", "int4"), ("--draft-head", "9"))
    for option in (("--compare", "token"), ("-v", "token"), ("-K", "2"), ("-L", "2"), *alone):
        code, _, err = generate("hi", *option, drafted=False)
        assert code == 2 and "--draft" in err


def test_misuse_is_2(run):
    assert run("generate", "hi")[0] == 2  # no target
    assert run("generate", "hi", "-t", "x", "-K", "0")[0] == 2
    code, _, err = run("generate", "hi", "-t", "x", "-K", "1000000")
    assert code == 2 and "less than or equal to 64" in err
    assert run("nonsense")[0] == 2


def test_unknown_model(run):
    code, _, err = run("generate", "hi", "--target", "/no/such/folder")
    assert code == 2 and "/no/such/folder" in err


def test_version_and_verifiers(run):
    assert run("--version")[1].strip() == f"multidraft {__version__}"
    lines = run("verifiers")[1].splitlines()
    assert [line.split()[0] for line in lines] == list(VERIFIERS)


def test_interrupt_keeps_what_was_generated(generate, monkeypatch):
    from multidraft.cli import show

    def and_press(progress):
        printed(progress)
        signal.raise_signal(signal.SIGINT)

    printed = show.print_text
    monkeypatch.setattr(show, "print_text", and_press)
    code, out, err = generate("--raw", "hello")
    assert code == 130
    assert out.strip() and "cancelled" in err and "20 tokens" not in err
