"""What the tests of `bench` share: the tiny pair, prompts, and a run that listens."""

from __future__ import annotations

import json

import pytest

from multidraft.bench.config import make_config
from multidraft.bench.folder import read_records
from multidraft.bench.run import run as carry_out
from tests.cli.conftest import pair, run

__all__ = ["pair", "run"]

PROMPTS = [
    {"id": "river", "prompt": "The river ran"},
    {"id": "list", "prompt": "Write a list:"},
    {"id": "sum", "prompt": "2 + 2 =", "reference": "4"},
]


class Silent:
    """A listener that keeps what it heard."""

    def __init__(self):
        self.order = []
        self.plan = None

    def busy_with(self, what):
        pass

    def planned(self, total, done):
        self.plan = (total, done)

    def recorded(self, records):
        self.order += [(record.cell.method, record.example) for record in records]


@pytest.fixture
def prompts(tmp_path):
    """The path of a file of three prompts."""
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in PROMPTS), encoding="utf-8")
    return path


@pytest.fixture
def bench(pair, prompts, tmp_path):
    """Run with these settings: (finished, records, listener)."""
    target, draft = pair

    def command(interrupted=lambda: False, out=tmp_path / "run", **values):
        config = make_config(
            {
                "pairs": {"name": "tiny", "target": target, "draft": draft},
                "data": f"file:{prompts}",
                "methods": ["ar", "token", "spectr-gbv"],
                "dtype": "float32",
                "max_tokens": 10,
                **values,
            },
            "test",
        )
        listener = Silent()
        finished = carry_out(config, out, listener, interrupted)
        return finished, list(read_records(out)), listener

    return command
