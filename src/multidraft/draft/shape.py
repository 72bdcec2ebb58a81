"""Where a draft tree spends its nodes: how many children each node of one depth gets.

Everything here is known before those children are drawn: the draft's laws at nodes that exist, and
guesses at what these nodes are worth that were made before they were drawn. That is what keeps a
tree lossless whose shape adapts; how good the guesses are only decides how much is accepted.

A node's *weight* is a guess at the probability that `traversal` accepts it or something below,
once it comes to try it; its *reach* is the same before anything is tried. A chosen token x has
weight a·p(x), a being its parent's, as the target's q(x) is p(x) on average where a draft is
calibrated. A token drawn from a tail of mass T has E min(1, a q(x) T/p(x)), whatever is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

# Tuned on random pairs of laws with overlaps from 0.4 to 0.85, under- and overconfident ones
# (docs/benchmarks/hybrid_simulation.py); the optimum is flat.

#: The share of a flat law that the target rejects when a token is drawn from it.
_DISAGREEMENT = 0.25
#: What a chain is taken to keep of its reach from one depth to the next.
KEPT = 0.98
#: A node that is accepted less often than this is not worth a scored position.
_LEAST_REACH = 0.01


@dataclass(frozen=True)
class Prospect:
    """A node that may get children.

    Attributes:
        reach, weight: of the node.
        given: guessed probabilities of the children it has anyway (chosen by another source).
        likeliest: those of the tokens that could be chosen, largest first.
        squares: sum of the squares of all guessed probabilities: how peaked the law is.
        drawn: whether the first child is drawn from the tail; else all are chosen.
    """

    reach: float
    weight: float
    given: Sequence[float]
    likeliest: Sequence[float]
    squares: float
    drawn: bool


def guess(law: torch.Tensor) -> torch.Tensor:
    """A guess at the target's law from the draft's, both [V]: norm(p^¾), as drafts tend to be surer
    than they should be."""
    root = law.sqrt()
    powered = root.sqrt().mul_(root)  # in this order no step has denormal numbers, which are slow
    return powered.div_(powered.sum())


def tail_weight(weight: float, squares: float, chosen: Sequence[float]) -> float:
    """Weight of a child drawn from the tail outside ``chosen``, below a node of ``weight`` a.

    E min(1, a q(x) T/p(x)), averaged over the draw, is at most a·T. What 1 cuts off grows with a·T,
    and is nothing where the tail is a single token.
    """
    tail = 1.0 - sum(chosen)
    if tail <= 0.0 or weight <= 0.0:
        return 0.0
    flatness = max(0.0, 1.0 - (squares - sum(p * p for p in chosen)) / (tail * tail))
    most = weight * tail
    return most * (1.0 - math.pow(_DISAGREEMENT, 1.0 / most) * flatness)


def gains(prospect: Prospect, most: int) -> list[float]:
    """What the first, second, … child adds to the reach of a node's children, at most ``most`` of
    them; never increasing."""
    if prospect.weight <= 0.0:
        return []
    tried = prospect.reach / prospect.weight
    found: list[float] = []
    before, least = prospect.weight * sum(prospect.given), float("inf")
    for count in range(1, most + 1):
        num_chosen = count - 1 if prospect.drawn else count
        if num_chosen > len(prospect.likeliest):
            break
        chosen = [*prospect.given, *prospect.likeliest[:num_chosen]]
        value = prospect.weight * sum(chosen)
        if prospect.drawn:
            value += tail_weight(prospect.weight, prospect.squares, chosen)
        least = min(least, value - before)
        found.append(tried * max(0.0, least))
        before = value
    return found


def allot(
    prospects: Sequence[Prospect], budget: int, levels: int, node_price: float = 0.0
) -> list[int]:
    """Number of children for each node of one depth.

    Each possible child is taken to go on as a chain that keeps `KEPT` of its reach a level. Of all
    nodes of these chains the ``budget`` best are what it would buy; those of this depth are bought,
    and the rest of the budget is left to the deeper ones, where the laws will be known.

    Args:
        prospects: the nodes of this depth.
        budget: nodes left for this depth and all below it.
        levels: depths left, this one included.
        node_price: the least reach that is worth a node.
    """
    counts = [0] * len(prospects)
    table = [(gain, i) for i, p in enumerate(prospects) for gain in gains(p, budget)]
    if not table:
        return counts
    chains = np.outer([gain for gain, _ in table], KEPT ** np.arange(levels)).ravel()
    price = max(_LEAST_REACH, node_price)
    if len(chains) > budget:
        price = max(price, float(np.partition(chains, -budget)[-budget]))
    # A node's own gains never increase and the sort is stable: those bought are always its first.
    for gain, i in sorted(table, key=lambda row: -row[0])[:budget]:
        if gain >= price:
            counts[i] += 1
    return counts
