"""Engines that are lossless are not called BIASED more often than promised."""

from __future__ import annotations

import pytest
from scipy import stats

from multidraft.audit.alphabet import default_prompt
from multidraft.audit.law import exact_law, logits_of_folder
from multidraft.audit.report import Plan
from multidraft.audit.samplers import MultidraftSampler, TransformersSampler
from multidraft.audit.samplers.decoder_sampler import MODES
from multidraft.audit.setting import Setting
from tests.audit.faults import VOCAB_SIZE
from tests.audit.pairs import BATCH, audit_here, pair_of

#: High, so that 200 audits say something about it.
ALPHA = 0.05

ENGINES = [
    *MODES,
    "transformers:plain",
    "transformers:assisted",
    "transformers:lookup",
]


def alarms(engine: str, folder, repetitions: int) -> int:
    """How many of so many short audits, each with its own seeds, call the engine BIASED."""
    pair = pair_of(folder, 0.3, 1)
    setting = Setting(
        pair.target, pair.draft, top_k=4, num_tokens=4, num_drafts=3, draft_length=2, batch=BATCH
    )
    law = exact_law(logits_of_folder(pair.target), default_prompt(VOCAB_SIZE), setting)
    if engine.startswith("transformers"):
        sampler = TransformersSampler(setting, engine.partition(":")[2])
    else:
        sampler = MultidraftSampler(setting, engine)
    plans = [Plan(detect=0.4, alpha=ALPHA, seed=seed) for seed in range(repetitions)]
    verdicts = [audit_here(sampler, setting, law, plan).verdict for plan in plans]
    return verdicts.count("BIASED")


@pytest.mark.parametrize("engine", ["spectr-gbv", "union+specinfer", "auto", "transformers:plain"])
def test_few_short_audits(engine, tmp_path):
    """They work at all; that alarms are rare is told by many."""
    assert alarms(engine, tmp_path, 5) <= stats.binom.ppf(1 - 1e-4, 5, ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_many_short_audits(engine, tmp_path):
    assert alarms(engine, tmp_path, 200) <= stats.binom.ppf(1 - 1e-4, 200, ALPHA)
