"""`multidraft audit verifiers`: every product verifier enumerated on random laws, as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multidraft.audit.bounds import paper_closed_form, per_level_bound
from multidraft.audit.exact import Tokens, analyse
from multidraft.verify import VERIFIERS

#: The law of the output may differ from the target's by rounding alone.
LARGEST_ERROR = 1e-12

Laws = dict[Tokens, list[float]]


@dataclass(frozen=True)
class Case:
    """A pair of random laws: size V, K drafts of length L; some entries of both are 0."""

    vocab_size: int
    num_drafts: int
    draft_length: int
    seed: int

    @property
    def name(self) -> str:
        return f"V {self.vocab_size}, K {self.num_drafts}, L {self.draft_length}"

    def laws(self) -> tuple[Laws, Laws]:
        """(target, draft): a law for every prefix of up to L tokens."""
        rng = np.random.Generator(np.random.PCG64(self.seed))
        return self._random(rng), self._random(rng)

    def _random(self, rng: np.random.Generator) -> Laws:
        laws = {}
        for length in range(self.draft_length + 1):
            for prefix in itertools.product(range(self.vocab_size), repeat=length):
                weights = rng.dirichlet(np.full(self.vocab_size, 0.7))
                dropped = rng.random(self.vocab_size) < 0.1
                dropped[rng.integers(self.vocab_size)] = False
                weights = np.where(dropped, 0.0, weights + 1e-9)
                laws[prefix] = (weights / weights.sum()).tolist()
        return laws


#: Three drafts, where duplicates matter; and three tokens, where a carry lives longest.
CASES = (Case(3, 2, 2, 1), Case(3, 3, 2, 2), Case(2, 3, 3, 3))


@dataclass(frozen=True)
class Proof:
    """One verifier on one case.

    Attributes:
        verifier: its name.
        case: the laws.
        num_drafts: K as used: 1 for methods of one draft.
        max_error: largest difference between an output probability and the target's.
        accepted: expected number of accepted draft tokens a round.
        bound: what no verifier of K i.i.d. drafts exceeds.
        closed_form: the paper's formula, which is neither reached nor a bound.
    """

    verifier: str
    case: Case
    num_drafts: int
    max_error: float
    accepted: float
    bound: float
    closed_form: float

    @property
    def exact(self) -> bool:
        return self.max_error < LARGEST_ERROR


def prove(cases: tuple[Case, ...] = CASES) -> Iterator[Proof]:
    """Enumerate every draft and every random outcome of each verifier on each case."""
    for case in cases:
        target, draft = case.laws()
        for verifier in VERIFIERS.values():
            num_drafts = 1 if verifier.drafts == "one" else case.num_drafts
            report = analyse(verifier, target, draft, num_drafts, case.draft_length)
            shape = (target, draft, num_drafts, case.draft_length)
            yield Proof(
                verifier.name,
                case,
                num_drafts,
                report.max_error,
                report.expected_accepted,
                per_level_bound(*shape),
                paper_closed_form(*shape),
            )
