"""Markov pairs whose exact law is known, and the test of an engine's output against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

from multidraft import Decoder, FunctionModel, SamplingParams
from multidraft.draft import ModelDrafter
from multidraft.engine import Result
from multidraft.verify import Verifier, get_verifier


@dataclass
class Pair:
    target: np.ndarray  # [V, V]: next-token law given the last token
    draft: np.ndarray

    @property
    def vocab_size(self) -> int:
        return len(self.target)

    def decoder(
        self, verifier: str | Verifier, num_drafts: int, draft_length: int, slots: int = 64
    ) -> Decoder:
        method = get_verifier(verifier)
        drafter = ModelDrafter(
            markov(self.draft, slots), 1 if method.drafts == "one" else num_drafts, draft_length
        )
        return Decoder(markov(self.target, slots), drafter, method)


def random_pair(seed: int, vocab_size: int, mix: float, concentration: float = 1.0) -> Pair:
    """A random pair; the draft is ``mix`` times the target, the rest random."""
    rng = np.random.default_rng(seed)
    rng.choice([1.0])
    alpha = np.full(vocab_size, concentration)
    target = rng.dirichlet(alpha, size=vocab_size)
    return Pair(target, mix * target + (1 - mix) * rng.dirichlet(alpha, size=vocab_size))


class _Markov(FunctionModel):
    """One whose rows are logits already: else laws that are checked again take most of the time."""

    def __init__(self, laws: np.ndarray, slots: int):
        super().__init__(len(laws), lambda context: laws[context[-1]], slots=slots)
        self._rows = torch.tensor(laws, dtype=torch.float64).log()

    def _logits(self, contexts):
        return self._rows[[context[-1] for context in contexts]]


def markov(laws: np.ndarray, slots: int = 64) -> FunctionModel:
    return _Markov(laws, slots)


def sample(decoder: Decoder, rounds: int, seed: int, tokens: int = 200) -> list[Result]:
    """Decode batches of 64 sequences until ``rounds`` rounds are through."""
    results: list[Result] = []
    while sum(r.stats.rounds for r in results) < rounds:
        params = SamplingParams(max_tokens=tokens, seed=seed + len(results))
        results += decoder.generate([[0]] * 64, params)
    return results


def p_value(results: list[Result], law: np.ndarray) -> float:
    """Chi-square of the next-token counts given the last two tokens, at every position.

    Never only at the borders of rounds: where a round ends depends on its tokens, so a lossless
    engine would fail there.
    """
    size = len(law)
    counts = np.zeros((size, size, size))
    for result in results:
        tokens = [*result.prompt_token_ids, *result.token_ids]
        np.add.at(counts, (tokens[:-2], tokens[1:-1], tokens[2:]), 1)
    expected = counts.sum(axis=2, keepdims=True) * law[None]
    assert not counts[expected == 0].any(), "a token the target's law excludes"
    contexts = ((expected >= 5) | (law[None] == 0)).all(axis=2)
    tested = contexts[:, :, None] & (law[None] > 0)
    statistic = ((counts - expected)[tested] ** 2 / expected[tested]).sum()
    return float(stats.chi2.sf(statistic, tested.sum() - contexts.sum()))
