"""Greedy block verification with one draft or several (SpecTr-GBV), and the carry it leaves.

Lin et al. 2026 (SpecTr-GBV); Sun et al. 2024, appendix, for one draft. A greedy verifier accepts
more now and pays by a rewritten target law over the rest of the round's L positions. The rewrite
is the *carry*; without it the output is biased.
"""

from __future__ import annotations

import math

import torch

from multidraft.chance import Chance
from multidraft.tree import ROOT, DraftTree
from multidraft.verify.base import Carry, CarryEntry, LawOf, Verdict
from multidraft.verify.residual import residual

#: c_0 … c_n: the target's law and its rewrites by each carry entry; None stands for a zero law.
Rewrites = list["torch.Tensor | None"]


def rewrite(law: torch.Tensor, draft: torch.Tensor | None, carry: Carry) -> Rewrites:
    """c_0 = q, c_i = norm([W_i c_{i−1} − p]+), oldest entry first.

    ``draft`` is the draft's law p at the same node, needed only where the carry is not empty.
    """
    laws: Rewrites = [law]
    for entry in carry:
        assert draft is not None, "a live carry needs the draft's law at every node it covers"
        law_before = laws[-1]
        if law_before is None or entry.log_weight == -math.inf:
            laws.append(None)
        elif entry.log_weight <= 0.0:
            laws.append(residual(law_before, draft, math.exp(entry.log_weight))[0])
        else:  # the same law, scaled so that a huge weight cannot overflow
            laws.append(residual(law_before, draft * math.exp(-entry.log_weight))[0])
    return laws


def step(carry: Carry, laws: Rewrites, draft: torch.Tensor | None, token: int) -> Carry:
    """The carry below ``token``: W_i gains the factor c_{i−1}(x)/p(x), one position is used up."""
    if not carry:
        return ()
    assert draft is not None
    p = float(draft[token])
    if p == 0.0:
        return ()  # every weight goes to infinity, where the rewrite changes nothing
    stepped = []
    for entry, law in zip(carry, laws, strict=False):
        if entry.left > 1:
            ratio = 0.0 if law is None else float(law[token]) / p
            gained = math.log(ratio) if ratio > 0.0 else -math.inf
            stepped.append(CarryEntry(entry.log_weight + gained, entry.left - 1))
    return tuple(stepped)


def settle(carry: Carry, laws: Rewrites) -> tuple[Carry, Rewrites]:
    """At an emitted position the last rewrite has mass; where rounding took it, drop what did."""
    while laws[-1] is None:
        carry, laws = carry[: len(laws) - 2], laws[:-1]
    return carry, laws


def spectr_gbv(tree: DraftTree, target_law: LawOf, chance: Chance, carry: Carry) -> Verdict:
    """Greedy block verification draft by draft, each against the law the earlier ones left."""
    assert tree.chains is not None
    node, path = ROOT, list[int]()
    length = len(tree.chains[0]) if tree.chains else 0
    for chain in tree.chains:
        t = len(path)
        if t == length:
            break
        if chain[:t] != path:
            continue
        accepted, log_weight, carry = _greedy_block(
            tree, chain[t:], node, target_law, chance, carry
        )
        path = chain[: t + accepted]
        node = path[-1] if path else ROOT
        if len(path) < length:
            carry = (*carry, CarryEntry(log_weight, length - len(path)))
    draft = tree.laws.get(node)
    carry, laws = settle(carry, rewrite(target_law(node), draft, carry))
    law = laws[-1]
    assert law is not None
    token = chance.draw(law)
    return Verdict(path, token, step(carry, laws, draft, token))


def _greedy_block(
    tree: DraftTree, block: list[int], node: int, target_law: LawOf, chance: Chance, carry: Carry
) -> tuple[int, float, Carry]:
    """One draft's remaining block below ``node``: (accepted length i, log W_i, carry there)."""
    carry, laws = settle(carry, rewrite(target_law(node), tree.laws.get(node), carry))
    states = [(carry, laws, 0.0)]  # at each length: carry, rewritten laws, log W
    for i, child in enumerate(block):
        carry, laws, log_weight = states[-1]
        law, draft, token = laws[-1], tree.laws[node], tree.tokens[child]
        ratio = 0.0 if law is None else float(law[token]) / float(draft[token])
        if ratio == 0.0:
            break  # W = 0 from here on: no longer length can win
        carry, node = step(carry, laws, draft, token), child
        # The leaf's law decides nothing here; it is computed only if the leaf is accepted.
        laws = rewrite(target_law(node), tree.laws.get(node), carry) if i + 1 < len(block) else []
        states.append((carry, laws, log_weight + math.log(ratio)))

    for i in range(len(states) - 1, 0, -1):
        carry, laws, log_weight = states[i]
        weight = math.exp(min(log_weight, 0.0))
        if weight == 1.0:
            return i, log_weight, carry  # h_i = 1: A − B = W − 1 >= 0
        if i == len(block):
            h = weight
        elif laws[-1] is None:
            h = 0.0
        else:
            surplus = residual_mass(laws[-1], tree.laws[block[i - 1]], weight)  # A; B = A + 1 − W
            h = surplus / (surplus + (1.0 - weight))
        if chance.accept(h):
            return i, log_weight, carry
    return 0, 0.0, states[0][0]


def residual_mass(law: torch.Tensor, draft: torch.Tensor, weight: float) -> float:
    """A = sum over x of [W q(x) − p(x)]+."""
    return float(torch.sub(law * weight, draft).clamp_(min=0).sum())
