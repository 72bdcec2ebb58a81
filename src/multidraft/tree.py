"""The draft tree: one structure for every drafter and every verifier.

Nodes are scored once per distinct prefix. Draws stay separate: the same token drawn twice below
one node is two *entries* in that node's sibling order, both pointing at the same child node.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

ROOT = 0


class Entry(NamedTuple):
    """One proposed child, in sibling order.

    Attributes:
        node: the child node.
        proposal: law [V] the token was drawn from, given that its earlier siblings were already
            drawn; None for a token that was chosen, not drawn (a point mass).
    """

    node: int
    proposal: torch.Tensor | None


@dataclass
class DraftTree:
    """Draft tokens below one root, the last token already emitted.

    Attributes:
        tokens: token of each node; ``tokens[0]`` is the root's.
        parents: parent of each node; the root's is -1. Parents come before children.
        entries: for each node, its proposed children in the order they were drawn.
        laws: for some nodes, the draft's own next-token law [V] there. I.i.d. drafters give it
            wherever children were drawn, and deeper where a carry needs it.
        chains: for i.i.d. drafts, each draft as its nodes below the root (empty where nothing was
            drafted); None for other trees.
        reach: for some nodes, the drafter's guess at the probability that they are accepted.
    """

    tokens: list[int]
    parents: list[int]
    entries: list[list[Entry]]
    laws: dict[int, torch.Tensor] = field(default_factory=dict)
    chains: list[list[int]] | None = None
    reach: dict[int, float] = field(default_factory=dict)

    @classmethod
    def rooted_at(cls, token: int, num_chains: int = 0) -> DraftTree:
        """A tree of one node, with room for ``num_chains`` i.i.d. drafts."""
        return cls([token], [-1], [[]], {}, [[] for _ in range(num_chains)])

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, parent: int, token: int, proposal: torch.Tensor | None) -> int:
        """Append an entry below ``parent``; returns its node, an earlier sibling's if equal."""
        node = self.child(parent, token)
        if node is None:
            node = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(parent)
            self.entries.append([])
        self.entries[parent].append(Entry(node, proposal))
        return node

    def child(self, node: int, token: int) -> int | None:
        """The child of ``node`` that carries ``token``, if any."""
        for entry in self.entries[node]:
            if self.tokens[entry.node] == token:
                return entry.node
        return None

    def path(self, node: int) -> list[int]:
        """Nodes from below the root down to ``node``; empty for the root."""
        nodes: list[int] = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def path_tokens(self, node: int) -> list[int]:
        return [self.tokens[n] for n in self.path(node)]

    @property
    def depth(self) -> int:
        """Length of the longest draft."""
        return max(self.depths)

    @property
    def draft_rows(self) -> list[int]:
        """How many nodes the draft scored at each depth, from the root on: the rows of its calls.
        Empty where no model drafted."""
        depths = self.depths
        rows = Counter(depths[node] for node in self.laws)
        return [rows[depth] for depth in sorted(rows)]

    @property
    def depths(self) -> list[int]:
        """Of each node; 0 of the root."""
        depths = [0] * len(self.tokens)
        for node in range(1, len(self.tokens)):
            depths[node] = depths[self.parents[node]] + 1
        return depths
