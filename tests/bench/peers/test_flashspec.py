"""flashspec, where it is installed; and what is said where it is not."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest
import torch

from multidraft.bench.folder import read_manifest
from multidraft.errors import InvalidInput
from tests.bench.test_run import measured


def test_where_there_is_none(bench, tmp_path, monkeypatch):
    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("multidraft.bench.peers.installed.version", version)
    message = "'flashspec:draft@3' needs flashspec; pip install flashspec"
    with pytest.raises(InvalidInput, match=message):
        bench(methods="flashspec:draft@3")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def flashspec():
    pytest.importorskip("flashspec", reason="flashspec is not installed")


def test_greedy_is_the_same(bench, flashspec, tmp_path):
    _, records, _ = bench(methods=["ar", "flashspec:auto", "flashspec:draft"], temperature=0)
    texts = {}
    for record in records:
        assert record.error == ""
        same = (record.text, record.tokens, record.finish_reason)
        texts.setdefault(record.example, set()).add(same)
        if record.cell.method != "ar":
            assert record.rounds == [] and record.first_token > 0
            assert record.first_token + sum(record.gaps) <= record.seconds["other"] + 1e-3
    assert all(len(found) == 1 for found in texts.values())
    assert any(len(r.gaps) < r.tokens - 1 for r in records if r.cell.method == "flashspec:draft")
    assert read_manifest(tmp_path / "run")["versions"]["flashspec"]


def test_it_draws_by_the_seed(bench, flashspec, tmp_path):
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    runs = [bench(out=tmp_path / name, methods="flashspec:draft")[1] for name in ("a", "b")]
    assert measured(runs[0]) == measured(runs[1])
    assert torch.equal(state, torch.random.get_rng_state())


def test_interrupted(bench, flashspec):
    asked = 0

    def interrupted():
        nonlocal asked
        asked += 1
        return asked > 12

    finished, records, _ = bench(interrupted, methods="flashspec:draft", max_tokens=100)
    assert not finished and len(records) < 3 and asked < 30
