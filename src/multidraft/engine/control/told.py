"""What rounds tell a controller."""

from __future__ import annotations

from collections.abc import Sequence

from multidraft.draft.base import sureness
from multidraft.engine.control.base import Round
from multidraft.tree import ROOT, DraftTree


def rows_together(rows: Sequence[list[int]]) -> list[int]:
    """Rows of each call when several trees grow side by side."""
    deepest = max(map(len, rows), default=0)
    return [sum(each[depth] for each in rows if depth < len(each)) for depth in range(deepest)]


def looked_up(each: Round) -> float:
    """Tokens that lookup alone expected to be accepted, in a round without the draft model."""
    reach = each.tree.reach
    return sum(reach[node] for node in reach if node != ROOT) / each.choice.prices.lookup


def first_reach(tree: DraftTree) -> float:
    """Probability, as the drafter thinks, that one of the root's children is accepted."""
    return min(1.0, sum(tree.reach.get(entry.node, 0.0) for entry in tree.entries[ROOT]))


def calls_of(tree: DraftTree, accepted: int) -> list[tuple[int, float, bool]]:
    """Of each call that tells something: its kind (see `Yield`), what the draft expected of it, and
    whether a token that it gave was accepted."""
    if tree.chains is not None:
        reached = min(tree.depth, accepted + 1)
        return [(0, 1.0, accepted > depth) for depth in range(reached)]
    if len(tree) == 1:  # nothing was asked of the target
        return []
    depths = tree.depths
    reach = [0.0] * (max(depths) + 1)  # of the nodes that the call went on from
    for node in tree.laws:
        reach[depths[node]] += tree.reach.get(node, 0.0)
    return [
        (sureness(total), min(1.0, total), accepted > depth)
        for depth, total in enumerate(reach)
        if total > 0.0
    ]
