"""Greedy multi-path block verification: pick one draft by a known rule, then verify it as a block.

Thomas and Pal 2026; for drafts of one token, Hu et al. 2025. Memoryless.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from multidraft.chance import Chance
from multidraft.tree import ROOT, DraftTree
from multidraft.verify.base import Carry, LawOf, Verdict
from multidraft.verify.blocks import traversal

#: Tokens that the draft gives at least this are put in order by q/p. To sort a whole vocabulary
#: takes as long as a draft step, and any order that is fixed before the draws is as lossless.
_SORTED_FROM = 1e-8


class _Level(NamedTuple):
    """The order of the vocabulary at one node and the pick's law there.

    Attributes:
        order: tokens with p > 0: by id those below `_SORTED_FROM`, then the others, smallest q/p
            first, ties by id. [S]
        below: for each of them, F(x^i) of the child, scaled to F + P = 1 at the node. [S]
        upto: the child's F + P on the same scale. [S]
        law: p_pick(. | x^i). [V]
    """

    order: torch.Tensor
    below: torch.Tensor
    upto: torch.Tensor
    law: torch.Tensor


def multipath(tree: DraftTree, target_law: LawOf, chance: Chance, carry: Carry) -> Verdict:
    """The draft that is largest in the lexicographic order of q/p, verified with the pick's law."""
    assert tree.chains is not None
    picked = DraftTree.rooted_at(tree.tokens[ROOT], 1)
    origin = [ROOT]  # node of `tree` behind each node of `picked`
    candidates, fraction_below = tree.chains, 0.0
    for depth in range(len(tree.chains[0]) if tree.chains else 0):
        node = origin[-1]
        level = _level(target_law(node), tree.laws[node], fraction_below, len(tree.chains))
        rank, best = max((_rank(level, tree.tokens[c[depth]]), c[depth]) for c in candidates)
        candidates = [c for c in candidates if c[depth] == best]
        picked.add(len(origin) - 1, tree.tokens[best], level.law)
        origin.append(best)
        fraction_below = float(level.below[rank]) / float(level.upto[rank])
    verdict = traversal(picked, lambda n: target_law(origin[n]), chance, carry)
    return verdict._replace(path=[origin[n] for n in verdict.path])


def _level(law: torch.Tensor, draft: torch.Tensor, f: float, num_drafts: int) -> _Level:
    """P_pick(x^i) = (F + P)^K − F^K = P · sum_j (F + P)^j F^(K−1−j), free of cancellation.

    ``f`` is F/(F + P) at this node; everything below is scaled by its F + P, against underflow.
    """
    order = _in_order(law, draft)
    p = draft[order].double()
    upto = torch.cumsum(p, 0)
    below, upto = f + (1 - f) * (upto - p), f + (1 - f) * upto
    below = below.clamp_(min=0.0)  # upto − p can round below zero
    powers = range(num_drafts)
    child = sum((upto**j * below ** (num_drafts - 1 - j) for j in powers), torch.zeros_like(p))
    here = sum(f ** (num_drafts - 1 - j) for j in powers)
    pick = torch.zeros_like(draft)
    pick[order] = (p * child / here).to(draft.dtype)
    return _Level(order, below, upto, pick)


def _in_order(law: torch.Tensor, draft: torch.Tensor) -> torch.Tensor:
    """The tokens that the draft may draw, as in `_Level`."""
    likely = (draft >= _SORTED_FROM).nonzero().squeeze(1)
    others = ((draft > 0) & (draft < _SORTED_FROM)).nonzero().squeeze(1)
    ratio = law[likely].double() / draft[likely].double()
    return torch.cat([others, likely[torch.sort(ratio, stable=True).indices]])


def _rank(level: _Level, token: int) -> int:
    return int((level.order == token).nonzero()[0])
