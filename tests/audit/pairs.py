"""Audits of real tiny models in this process."""

from __future__ import annotations

from pathlib import Path

from multidraft.audit.alphabet import text_of, tokens_of
from multidraft.audit.law import ExactLaw, exact_law, logits_of_folder
from multidraft.audit.report import Plan, Report
from multidraft.audit.run import audit
from multidraft.audit.samplers import DecoderSampler
from multidraft.audit.setting import Sampler, Setting
from multidraft.audit.testmodels import Pair, build_pair
from multidraft.models import load_model
from tests.audit.faults import VOCAB_SIZE, Fault

BATCH = 64


def pair_of(folder: Path, distance: float, seed: int) -> Pair:
    return build_pair(folder / f"{distance}-{seed}", distance, VOCAB_SIZE, seed)


def audit_here(
    sampler: Sampler, setting: Setting, law: ExactLaw, plan: Plan, chunk: int = 4 * BATCH
) -> Report:
    with sampler:
        return audit(sampler, setting, [law], plan, text_of, tokens_of, chunk)


def audit_fault(fault: Fault, pair: Pair, plan: Plan) -> Report:
    """Audit the wrong engine on real models, as the command line would."""
    setting = Setting(
        pair.target,
        pair.draft,
        temperature=fault.temperature,
        top_p=fault.top_p,
        top_k=fault.top_k,
        num_tokens=fault.num_tokens,
        num_drafts=fault.num_drafts,
        draft_length=fault.draft_length,
        batch=BATCH,
    )
    target, draft = (load_model(f, "float32", slots=BATCH) for f in (pair.target, pair.draft))
    law = exact_law(logits_of_folder(pair.target), fault.prompt, setting)
    sampler = DecoderSampler(fault.decoder(target, draft), setting, fault.name)
    return audit_here(sampler, setting, law, plan)
