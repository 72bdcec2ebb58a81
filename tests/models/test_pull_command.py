"""`multidraft pull` and `multidraft models`."""

import pytest
import typer
from typer.testing import CliRunner

from multidraft.cli.pull import models, pull
from multidraft.errors import ModelUnavailable

from .store_gguf import write_gguf


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIDRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    app = typer.Typer()
    app.command()(pull)
    app.command()(models)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_pull_then_models(run, tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf")
    pulled = run("pull", str(path))
    assert pulled.exit_code == 0
    assert str(tmp_path / "cache/models/tiny-") in pulled.stdout

    listed = run("models")
    assert listed.exit_code == 0
    assert str(path) in listed.stdout
    assert "smollm2-135m-instruct" in listed.stdout
    assert str(tmp_path / "cache") in listed.stdout


def test_errors_travel_to_the_caller(run):
    assert isinstance(run("pull", "nowhere.gguf").exception, ModelUnavailable)
