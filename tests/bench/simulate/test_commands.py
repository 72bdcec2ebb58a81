"""`multidraft bench simulate` and `bench costs` as a user meets them."""

from __future__ import annotations

import json
from statistics import geometric_mean

import pytest
import yaml

from multidraft.bench.simulate.costs import read_costs
from tests.bench.report.synthetic import run_records, write_run


@pytest.fixture
def folder(tmp_path):
    methods = {"ar": 0.0, "token": 0.8, "spectr-gbv": 0.85}
    records = run_records(methods, ("gsm8k", "humaneval"), prompts=6, lengths=(4, 8))
    return str(write_run(tmp_path / "run", records))


def test_from_sizes(run, folder, tmp_path):
    out = tmp_path / "out"
    code, said, _ = run("bench", "simulate", folder, "--sizes", "33:1.3", "--out", str(out))
    assert code == 0
    assert "33:1.3 billion parameters, NVIDIA A100 80 GB" in " ".join(said.split())
    assert "Speed-up along L" in said and "spectr-gbv" in said
    assert "it is not recorded how many" in " ".join(said.split())
    assert (out / "predicted.html").is_file() and list((out / "figures").glob("*.svg"))
    assert "speed_up" in (out / "predicted.csv").read_text()
    assert "Predicted for 33:1.3" in (out / "predicted.md").read_text()


def test_a_prediction_is_not_written_over_a_report(run, folder, tmp_path):
    measured = tmp_path / "measured"
    assert run("bench", "report", folder, "--out", str(measured))[0] == 0
    before = (measured / "report.html").read_bytes()
    code, _, told = run("bench", "simulate", folder, "--sizes", "33:1.3", "--out", str(measured))
    assert code == 2 and "holds no predicted.html" in " ".join(told.split())
    assert (measured / "report.html").read_bytes() == before


def test_json(run, folder, tmp_path):
    costs = tmp_path / "costs.yaml"
    costs.write_text("target: {1: 1, 25: 1.2}\ndraft: 0.2\n")
    code, said, _ = run("bench", "simulate", folder, "--costs", str(costs), "--json")
    assert code == 0
    found = json.loads(said)
    assert found["costs"]["draft"] == {"1": 0.2}
    rows = {(r["dataset"], r["method"], r["draft_length"]): r for r in found["rows"]}
    assert len(rows) == 3 * 5
    mean = [rows[name, "token", 8]["speed_up"]["value"] for name in ("gsm8k", "humaneval")]
    assert rows["mean", "token", 8]["speed_up"]["value"] == pytest.approx(geometric_mean(mean))
    assert rows["mean", "ar", 0]["speed_up"]["value"] == pytest.approx(1.0)
    assert {(p["method"], p["draft_length"]) for p in found["peaks"]} <= {
        (method, length) for _, method, length in rows
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either --costs FILE or --sizes"),
        (("--sizes", "33:1.3", "--costs", "x.yaml"), "either --costs FILE or --sizes"),
        (("--sizes", "33"), "such as 33:1.3"),
        (("--costs", "nowhere.yaml"), "Cannot read the cost table nowhere.yaml"),
    ],
)
def test_misuse(run, folder, arguments, message):
    code, said, told = run("bench", "simulate", folder, *arguments)
    assert code == 2 and said == "" and message in told and "Traceback" not in told


def test_out_that_holds_something_else(run, folder, tmp_path):
    code, said, told = run("bench", "simulate", folder, "--sizes", "7:1", "--out", folder)
    assert code == 2 and said == "" and "holds no predicted.html" in told


def test_costs_measured_and_used(run, pair, folder, tmp_path):
    target, draft = pair
    out = tmp_path / "costs.yaml"
    models = ("--target", target, "--draft", draft, "--dtype", "float32", "--out", str(out))
    options = ("-K", "3", "-L", "2,4", "--verifiers", "token,spectr-gbv", "--repetitions", "1")
    code, said, _ = run("bench", "costs", *models, *options)
    assert code == 0 and said == f"Costs written to {out}\n"
    table = yaml.safe_load(out.read_text())
    assert list(table) == ["target", "draft", "verify", "other", "prefill"]
    assert list(table["target"]) == [1, 4, 8, 12, 13]
    assert set(table["verify"]) == set(table["other"]) == {"ar", "token", "spectr-gbv"}
    assert len(table["verify"]["spectr-gbv"]) == 2  # one for each L
    costs = read_costs(out)
    assert 0 < costs.target(1) < 1 and 0 < costs.step()(3) < 1 and costs.prefill_target(128) > 0
    code, said, _ = run("bench", "simulate", folder, "--costs", str(out))
    assert code == 0 and "Predicted for costs.yaml" in said
    assert "given up to 13 positions and were continued up to 25" in " ".join(said.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-L", "4,x"), "-L takes whole numbers"),
        (("-L", "0"), "-L takes whole numbers"),
        (("--verifiers", "tokn"), "tokn"),
        (("--out", "nowhere/costs.yaml"), "There is no folder nowhere"),
        (("-K", "8", "-L", "8"), "there are only 256"),
    ],
)
def test_costs_misuse(run, pair, tmp_path, options, message):
    out = ("--out", str(tmp_path / "costs.yaml"))
    code, said, told = run(
        *("bench", "costs", "--target", pair[0], "--draft", pair[1], "--dtype", "float32"),
        *out,
        *options,
    )
    assert code == 2 and said == "" and message in told and "Traceback" not in told
    assert not (tmp_path / "costs.yaml").exists()
