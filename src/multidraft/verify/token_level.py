"""Token-level verifiers, memoryless: recursive rejection (SpecInfer) and K-SEQ (SpecTr)."""

from __future__ import annotations

import itertools
import math

import torch

from multidraft.chance import Chance
from multidraft.tree import ROOT, DraftTree
from multidraft.verify.base import Carry, LawOf, Verdict
from multidraft.verify.residual import probability, residual, without


def specinfer(tree: DraftTree, target_law: LawOf, chance: Chance, carry: Carry) -> Verdict:
    """Multi-round rejection, level by level; with one draft, standard speculative decoding.

    Miao et al. 2023 (SpecInfer); Leviathan et al. 2023 and Chen et al. 2023 for one draft.
    """
    node, path = ROOT, list[int]()
    while True:
        law = target_law(node)
        accepted = None
        for child, proposal in tree.entries[node]:
            token = tree.tokens[child]
            if chance.accept(float(law[token]) / probability(proposal, token)):
                accepted = child
                break
            left, _ = without(law, token) if proposal is None else residual(law, proposal)
            # Nothing left: law equals proposal, and only rounding can have rejected.
            law = law if left is None else left
        if accepted is None:
            return Verdict(path, chance.draw(law))
        node = accepted
        path.append(node)


def spectr(tree: DraftTree, target_law: LawOf, chance: Chance, carry: Carry) -> Verdict:
    """K-SEQ, level by level, over all drafts whose prefix matches. Sun et al. 2023 (SpecTr)."""
    node, path = ROOT, list[int]()
    while True:
        law = target_law(node)
        entries = tree.entries[node]
        if not entries:
            return Verdict(path, chance.draw(law))
        draft = tree.laws[node]
        rho, any_accepted = k_seq(law, draft, len(entries))
        for child, _ in entries:
            token = tree.tokens[child]
            if chance.accept(float(law[token]) / (rho * float(draft[token]))):
                break
        else:
            left, _ = residual(law, torch.minimum(draft, law / rho).mul_(any_accepted))
            return Verdict(path, chance.draw(law if left is None else left))
        node = child
        path.append(node)


def k_seq(law: torch.Tensor, draft: torch.Tensor, n: int) -> tuple[float, float]:
    """The division factor of K-SEQ for n i.i.d. drafts, and (1 − (1 − b)^n)/b.

    With b(rho) = sum min(p, q/rho), rho in [1, n] solves 1 − (1 − b)^n = rho·b. Any rho from the
    solution upwards is lossless, so the search returns the upper end of its bracket.
    """
    shared = ((draft > 0) & (law > 0)).nonzero().squeeze(1)  # b needs no other token
    p, q = draft[shared], law[shared]

    def overlap(rho: float) -> float:
        return min(1.0, float(torch.minimum(p, q / rho).sum()))

    def excess(rho: float) -> float:
        b = overlap(rho)
        return _at_least_one(b, n) - rho * b

    low, high = 1.0, float(n)
    tolerance = 4 * torch.finfo(law.dtype).eps * n
    if n == 1 or (at_low := excess(low)) <= 0.0:
        high = low
    at_high = excess(high)
    for i in itertools.count():
        if high - low <= tolerance:
            break
        # Regula falsi, kept a tolerance inside the bracket so that both ends close in, with a
        # bisection every third time against its slow cases.
        rho = (low + high) / 2
        if i % 3 and at_low > at_high:
            rho = low + (high - low) * at_low / (at_low - at_high)
            rho = min(max(rho, low + tolerance / 2), high - tolerance / 2)
        if (value := excess(rho)) > 0.0:
            low, at_low = rho, value
        else:
            high, at_high = rho, value
    b = overlap(high)
    return high, _at_least_one(b, n) / b if b > 0 else 0.0


def _at_least_one(b: float, n: int) -> float:
    """1 − (1 − b)^n without cancellation."""
    return 1.0 if b >= 1.0 else -math.expm1(n * math.log1p(-b))
