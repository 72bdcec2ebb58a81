"""`multidraft audit` from the command line."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from multidraft.audit.alphabet import default_prompts
from multidraft.audit.law import exact_law, logits_of_folder
from multidraft.audit.setting import Setting
from multidraft.audit.testmodels import build_pair, load_pair
from multidraft.errors import AuditError, InvalidInput

ENGINE = """
    import json, random, sys

    laws = json.load(open(sys.argv[1]))
    for line in sys.stdin:
        r = json.loads(line)
        assert (r["temperature"], r["top_p"], r["top_k"], r["min_p"]) == (1, 1, 0, 0)
        cells, p = laws[json.dumps(r["prompt_token_ids"])]
        if len(sys.argv) > 2:  # a wrong one
            p = [x**0.8 for x in p]
        (cell,) = random.Random(r["seed"]).choices(cells, p)
        tokens = (cell + [0] * r["max_tokens"])[: r["max_tokens"]]
        print(json.dumps({"id": r["id"], "token_ids": tokens}), flush=True)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit") / "pair"
    build_pair(folder, seed=1)
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory, models):
    """A command that samples the exact law; with one more argument, a wrong one."""
    folder = tmp_path_factory.mktemp("program")
    pair = load_pair(models)
    setting, logits = Setting(pair.target), logits_of_folder(pair.target)
    laws = {}
    for prompt in default_prompts(pair.vocab_size, 1, pair.seed):
        law = exact_law(logits, prompt, setting)
        laws[json.dumps(prompt)] = [[*map(list, law.cells)], law.p.tolist()]
    (folder / "laws.json").write_text(json.dumps(laws, default=int))
    (folder / "engine.py").write_text(textwrap.dedent(ENGINE))
    return shlex.join([sys.executable, str(folder / "engine.py"), str(folder / "laws.json")])


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The product's cache folder, where the first command that needs them builds the models."""
    return tmp_path_factory.mktemp("cache")


def test_a_lossless_program(run, models, program):
    code, out, _ = run(
        "audit", "command", "--command", program, "--models", str(models), "--detect", "0.15"
    )
    assert code == 0
    assert "LOSSLESS (no bias above 0.1" in out
    assert "token 5 given tokens 1-4" in out


def test_a_biased_program_and_its_json(run, models, program):
    code, out, _ = run(
        *("audit", "command", "--command", f"{program} wrong", "--models", str(models)),
        *("--detect", "0.1", "--json"),
    )
    assert code == 1
    report = json.loads(out)
    assert report["verdict"] == "BIASED"
    assert report["p_value"] <= report["alpha"] == 0.001
    assert report["samples"] < report["planned"]
    assert report["setting"]["num_tokens"] == 5
    assert report["total_variation"]["low"] > 0


def test_out_of_time_is_undecided_with_exit_code_3(run, models, program):
    code, out, _ = run(
        *("audit", "command", "--command", program, "--models", str(models)),
        *("--max-time", "0.01", "--batch", "8"),
    )
    assert code == 3
    assert "UNDECIDED" in out


def test_the_picture(run, models, program, tmp_path):
    picture = tmp_path / "law.png"
    code, _, _ = run(
        *("audit", "command", "--command", program, "--models", str(models)),
        *("--detect", "0.3", "--plot", str(picture)),
    )
    assert code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_does_not_cost_the_result(run, models, program, tmp_path):
    (tmp_path / "law.png").mkdir()
    code, out, err = run(
        *("audit", "command", "--command", program, "--models", str(models)),
        *("--detect", "0.4", "--json", "--plot", str(tmp_path / "law.png")),
    )
    assert code == 2
    assert json.loads(out)["verdict"] == "LOSSLESS"
    assert "The picture cannot be written" in err
    assert err.strip().count("\n") == 0


@pytest.mark.parametrize(("where", "expected"), [("pipe", 141), ("/dev/full", 2)])
def test_an_output_that_fails_ends_in_no_verdict(where, expected):
    """Exit code 1, Python's own for an error and rich's for a closed pipe, means BIASED."""
    lines = "from multidraft.cli import main; main()"
    command = [sys.executable, "-c", lines, "audit", "verifiers", "--help"]
    if where == "pipe":
        ended = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        ended.stdout.close()
        code = ended.wait()
    else:
        if not Path(where).exists():
            pytest.skip("this system has no such file")
        with Path(where).open("wb") as full:
            ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE)
        code = ended.returncode
        assert ended.stderr.startswith(b"multidraft: ")
    assert code == expected


@pytest.mark.parametrize("error", [RuntimeError("a bug"), SystemExit(1), KeyError("x")])
def test_what_breaks_ends_in_no_verdict(run, monkeypatch, error):
    def broken():
        raise error

    monkeypatch.setattr("multidraft.audit.proof.prove", broken)
    code, _, _ = run("audit", "verifiers")
    assert code in (2, 141)


def test_two_distances_that_look_alike_have_folders_of_their_own(run, monkeypatch, tmp_path):
    monkeypatch.setenv("MULTIDRAFT_CACHE", str(tmp_path))
    for distance in ("0.3", "0.30000001"):
        _, _, err = run("audit", "command", "--command", "no-such", "--distance", distance)
        assert "no-such cannot be run" in err


@dataclass
class Stub:
    """A report of which only the end counts."""

    interrupted: bool = False
    verdict: str = "LOSSLESS"


def test_a_suite_goes_on_after_a_failure_and_ends_at_ctrl_c(monkeypatch):
    from multidraft.audit import suite
    from multidraft.audit.blackbox import Access
    from multidraft.audit.report import Plan

    results = [Stub(), AuditError("it fell over"), InvalidInput("no cut"), Stub(True), Stub()]

    alphas = []

    def audited(engine, setting, pair, plan, *_):
        alphas.append(plan.alpha)
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(suite, "audit_engine", audited)

    monkeypatch.setattr(suite, "centre", lambda *_: suite.Setting("target"))
    found = list(suite.run_suite("multidraft", lambda distance: None, Plan(), Access()))
    assert [(e.report is None, e.error) for e in found] == [
        (False, ""),
        (True, "it fell over"),
        (True, "no cut"),
        (False, ""),
    ]
    assert suite.exit_code(found) == 2  # some could not run
    for verdicts, code in (
        (["LOSSLESS", "UNDECIDED", "BIASED"], 1),
        (["LOSSLESS", "UNDECIDED"], 3),
        (["LOSSLESS"], 0),
    ):
        entries = [suite.Entry(suite.BATTERY[0], Stub(verdict=verdict)) for verdict in verdicts]
        assert suite.exit_code(entries) == code
    # The error rate is that of the suite.
    assert alphas == [pytest.approx(Plan().alpha / len(suite.battery_for("multidraft")))] * 4

    results[:] = [InvalidInput("no such mode")]
    with pytest.raises(InvalidInput, match="no such mode"):
        next(suite.run_suite("multidraft", lambda distance: None, Plan(), Access()))


def test_our_own_engine(run, models):
    code, out, _ = run(
        "audit", "multidraft:token", "--models", str(models), "--detect", "0.3", "--workers", "1"
    )
    assert code == 0
    assert "multidraft" in out
    assert "token, K 1, L 3" in out


def test_models_for_a_server(run, tmp_path):
    folder = tmp_path / "served"
    code, out, _ = run("audit", "models", str(folder), "--vocab-size", "16")
    assert code == 0
    assert str(folder / "target") in out
    assert (folder / "draft" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "Unknown engine 'nothing'"),
        (["[/b]"], "Unknown engine '[/b]'"),
        (["multidraft:nothing"], "Unknown mode 'nothing'"),
        (["multidraft", "-n", "4"], "take at least 5"),
        (["multidraft", "--detect", "2"], "detect must lie between 0 and 1"),
        (["multidraft", "--temperature", "-1"], "temperature must be"),
        (["multidraft", "--plot", "law.xyz"], "end its name in"),
        (["multidraft", "--plot", "nowhere/law.png"], "There is no folder"),
        (["command"], "needs"),
        (["openai", "--base-url", "http://127.0.0.1:9/v1"], "needs"),
        (["command", "--command", "no-such-program"], "no-such-program"),
        (["suite", "openai"], "one setting at a time"),
        (["suite", "nothing"], "Unknown engine 'nothing'"),
        (["multidraft", "--vocab-size", "99"], "from 8 to 32"),
        (["compare", "multidraft:ar", "--target", "t", "--prompts", "{here}"], "not speculate"),
        (["compare", "openai", "--target", "t", "--prompts", "{here}"], "--baseline-url"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_misuse_is_one_line_and_exit_code_2(run, arguments, message, monkeypatch, cache):
    monkeypatch.setenv("MULTIDRAFT_CACHE", str(cache))
    code, out, err = run("audit", *(a.replace("{here}", __file__) for a in arguments))
    assert code == 2
    assert message in err
    assert err.strip().count("\n") == 0
    assert not out


def test_a_folder_without_test_models(run, tmp_path):
    code, _, err = run("audit", "multidraft", "--models", str(tmp_path))
    assert code == 2
    assert "holds no test models" in err


def test_speculation_on_against_off(run, pair, tmp_path):
    target, draft = pair
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "ab"}\n{"prompt": "cd"}\n')
    code, out, _ = run(
        *("audit", "compare", "multidraft:spectr-gbv", "--target", target, "--draft", draft),
        *("--prompts", str(prompts), "--samples", "32", "-L", "1", "-K", "2", "-T", "0.5"),
    )
    assert code == 0
    assert "SAME (no difference above" in out


@pytest.mark.parametrize("text", ["", '{"text": "no prompt"}\n', "not json\n"])
def test_prompts_that_cannot_be_read(run, pair, tmp_path, text):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(text)
    code, _, err = run(
        "audit", "compare", "multidraft", "--target", pair[0], "--prompts", str(prompts)
    )
    assert code == 2
    assert str(prompts) in err


def test_the_verifiers_table(run, monkeypatch):
    from multidraft.audit import proof

    monkeypatch.setattr(proof.prove, "__defaults__", (proof.CASES[:1],))
    code, out, _ = run("audit", "verifiers")
    assert code == 0
    assert out.count(" yes") == 8
