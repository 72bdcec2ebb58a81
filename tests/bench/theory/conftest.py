"""A recorded run of tiny models whose tokens are letters, for theory to be computed on."""

from __future__ import annotations

import json
import shutil

import pytest

from multidraft.audit.alphabet import default_prompts, text_of
from multidraft.audit.testmodels import build_pair
from multidraft.bench.config import make_config
from multidraft.bench.folder import read_records
from multidraft.bench.run import run as carry_out_bench
from multidraft.bench.theory.run import run as carry_out
from multidraft.bench.theory.scores import read_scores
from tests.bench.conftest import Silent
from tests.cli.conftest import run

__all__ = ["run"]

PROMPTS, REPETITIONS, MAX_TOKENS = 6, 10, 12


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    return build_pair(tmp_path_factory.mktemp("models") / "pair", distance=0.5)


@pytest.fixture(scope="session")
def original(models, tmp_path_factory):
    """The run's folder, not to be written to."""
    root = tmp_path_factory.mktemp("recorded")
    prompts = root / "letters.jsonl"
    lines = (json.dumps({"prompt": text_of(p)}) + "\n" for p in default_prompts(8, PROMPTS))
    prompts.write_text("".join(lines))
    config = make_config(
        {
            "pairs": {"name": "tiny", "target": str(models.target), "draft": str(models.draft)},
            "data": f"file:{prompts}",
            "methods": ["ar", "token", "specinfer", "spectr"],
            "temperature": 0.9,
            "num_drafts": 4,
            "draft_length": 1,
            "max_tokens": MAX_TOKENS,
            "repetitions": REPETITIONS,
            "batch": PROMPTS,
            "dtype": "float32",
        },
        "test",
    )
    assert carry_out_bench(config, root / "run", Silent(), lambda: False)
    return root / "run"


@pytest.fixture
def recorded(original, tmp_path):
    """A copy of the run's folder."""
    return shutil.copytree(original, tmp_path / "run")


class Watch:
    """A listener that keeps what it heard."""

    def __init__(self):
        self.plan, self.scores = None, []

    def busy_with(self, what):
        pass

    def planned(self, total, done):
        self.plan = (total, done)

    def scored(self, scores):
        self.scores.append(scores)


@pytest.fixture
def theory():
    """Compute the theory of a run: (finished, all scores, listener)."""

    def command(path, every=1, prompts=None, data_dir=None, interrupted=lambda: False):
        watch = Watch()
        finished = carry_out(path, every, prompts, data_dir, watch, interrupted)
        return finished, list(read_scores(path)), watch

    return command


@pytest.fixture(scope="session")
def scored(original, tmp_path_factory):
    """A run's folder with its theory, the records by key, and the scores."""
    path = shutil.copytree(original, tmp_path_factory.mktemp("scored") / "run")
    assert carry_out(path, 1, None, None, Watch(), lambda: False)
    return path, {r.key: r for r in read_records(path)}, list(read_scores(path))
