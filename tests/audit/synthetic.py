"""A target of random second-order Markov logits, and engines that sample exactly or wrongly."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multidraft.audit.alphabet import text_of, tokens_of
from multidraft.audit.law import ExactLaw, exact_law
from multidraft.audit.report import Plan, Report
from multidraft.audit.run import audit
from multidraft.audit.setting import Setting

V = 6
PROMPT = (0, 1, 2, 3)


def logits_of(seed: int, scale: float = 1.6):
    table = scale * np.random.default_rng(seed).normal(size=(V, V, V))
    return lambda contexts: table[contexts[:, -2], contexts[:, -1]]


def setting(**options) -> Setting:
    return Setting(Path("target"), **{"num_tokens": 4, **options})


def law_of(setting: Setting, seed: int = 1, prompt=PROMPT) -> ExactLaw:
    return exact_law(logits_of(seed), prompt, setting)


class Exact:
    """Samples cells of a law, by default with its own probabilities."""

    name = "synthetic"

    def __init__(self, laws: list[ExactLaw], seed: int, p: np.ndarray | None = None):
        self.laws = {law.prompt: law for law in laws}
        self.p = p
        self.rng = np.random.default_rng(seed)
        self.seeds: list[int] = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def sample(self, requests):
        self.seeds += [r.seed for r in requests]
        return [self.answer(r) for r in requests]

    def answer(self, request):
        law = self.laws[request.tokens]
        weights = law.p if self.p is None else self.p
        cell = law.cells[np.searchsorted(weights.cumsum(), self.rng.random() * weights.sum())]
        return (cell + (0,) * law.num_tokens)[: law.num_tokens]  # a short one ends anyhow


def run(sampler, where: Setting, laws: list[ExactLaw], chunk: int = 500, **plan) -> Report:
    return audit(sampler, where, laws, Plan(**plan), text_of, tokens_of, chunk)


def shifted(law: ExactLaw, by: float, seed: int = 0) -> np.ndarray:
    """Probabilities off by a common factor up on half of the cells and down on the others, at
    total variation ``by``: of all such laws the hardest to find."""
    up = np.random.default_rng(seed).random(len(law.p)) < 0.5
    mass = law.p[up].sum()
    return law.p * np.where(up, 1 + by / mass, 1 - by / (1 - mass))
