"""Commands of the extra "bench" where it is not installed."""

from __future__ import annotations

import importlib.util

import pytest

from tests.cli.conftest import run

__all__ = ["run"]


@pytest.mark.parametrize("package", ["scipy", "matplotlib", "jinja2", "yaml", "psutil"])
@pytest.mark.parametrize(
    "command",
    [
        ("tune", "--target", "a", "--draft", "b", "--data", "gsm8k"),
        ("bench", "run", "--out", "out"),
        ("bench", "report", "run"),
        ("bench", "simulate", "run", "--sizes", "33:1.3"),
        ("bench", "costs", "--target", "a", "--draft", "b", "--out", "costs.yaml"),
        ("bench", "theory", "run"),
        ("bench", "grade", "run"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_missing_package_is_told_in_one_line(run, monkeypatch, command, package):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == package else real(name, *rest),
    )
    code, said, err = run(*command)
    assert (code, said) == (2, "")
    assert "more packages: pip install '.[bench]'" in err
    assert len(err.strip().splitlines()) == 1
