"""The target's law at the nodes of one tree, computed only where a verifier asks."""

from __future__ import annotations

import torch

from multidraft.models.base import Extension
from multidraft.sampling import Warper
from multidraft.tree import DraftTree


def extension_of(slot: int, tree: DraftTree) -> Extension:
    """Score a whole tree: its root, the last token, is the first node after the prefix."""
    return Extension(slot, tree.tokens, tree.parents)


class TargetLaws:
    """``laws(node)`` -> the warped law [V] of the token after ``node``; each row computed once.

    Args:
        logits: [len(tree), V], the target's, one row per node.
        warper: the request's sampling parameters applied to a row, knowing its output so far.
    """

    def __init__(self, logits: torch.Tensor, warper: Warper, tree: DraftTree):
        self.logits = logits
        self._warper = warper
        self._tree = tree
        self._rows: dict[int, torch.Tensor] = {}

    def __call__(self, node: int) -> torch.Tensor:
        if node not in self._rows:
            path = self._tree.path_tokens(node)
            self._rows[node] = self._warper.law(self.logits[node], path)
        return self._rows[node]
