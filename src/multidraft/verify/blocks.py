"""Block verification and its tree form, traversal verification: memoryless, for any draft tree.

Sun et al. 2024 (Block Verification); Weng et al. 2025 (Traversal Verification).
"""

from __future__ import annotations

import torch

from multidraft.chance import Chance
from multidraft.tree import ROOT, DraftTree
from multidraft.verify.base import Carry, LawOf, Verdict
from multidraft.verify.residual import probability, residual, without


def traversal(tree: DraftTree, target_law: LawOf, chance: Chance, carry: Carry) -> Verdict:
    """Depth first, deepest node first, with an acceptance weight per node.

    With a single chain this is block verification.
    """
    explored: set[int] = set()

    def accepted_below(node: int, a: float) -> tuple[int, torch.Tensor] | None:
        """The accepted node at or below ``node`` (weight ``a``) and its law, or None."""
        entries = tree.entries[node]
        if not entries:
            return (node, target_law(node)) if chance.accept(a) else None
        law = target_law(node)
        for child, proposal in entries:
            token = tree.tokens[child]
            weight = min(1.0, a * float(law[token]) / probability(proposal, token))
            # A later draw of the same token has weight 0 by now: it is rejected in its own place
            # in the order, never grouped with the first (biased for K >= 3).
            if weight > 0.0 and child not in explored:
                explored.add(child)
                found = accepted_below(child, weight)
                if found is not None:
                    return found
            if proposal is None:
                left, mass = without(law, token, a)
            else:
                left, mass = residual(law, proposal, a)
            if left is not None:
                law, a = left, mass / (mass + (1.0 - a))  # in this order a = 1 stays exactly 1
            elif a < 1.0:
                return None  # no weight left here: every later child, and the node, is rejected
            # else: mass + 1 − a = 0, the node accepts with certainty from its unchanged law
        if node == ROOT or chance.accept(a):
            return node, law
        return None

    found = accepted_below(ROOT, 1.0)
    assert found is not None  # the root always accepts
    node, law = found
    return Verdict(tree.path(node), chance.draw(law))
