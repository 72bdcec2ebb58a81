"""Random laws of any context, and the wrong turns a drafter could take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from multidraft import FunctionModel
from multidraft.draft.base import Prices
from multidraft.tree import ROOT, DraftTree

EXACT = 1e-12
METHODS = ("traversal", "specinfer")


def random_model(seed: int, vocab_size: int, zeros: float = 0.0, sharp: float = 0.7):
    """A law of its own for every context; each entry but one is 0 with probability ``zeros``."""

    @cache
    def law(context: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([seed, *context])
        weights = rng.dirichlet(np.full(vocab_size, sharp)) + 1e-9
        dropped = rng.random(vocab_size) < zeros
        dropped[rng.integers(vocab_size)] = False
        weights[dropped] = 0.0
        return weights / weights.sum()

    return FunctionModel(vocab_size, law)


class Altered:
    """A drafter whose trees are changed after they were made."""

    def __init__(self, drafter, change: Callable[[DraftTree], DraftTree]):
        self._drafter, self._change = drafter, change
        self.drafts, self.model = drafter.drafts, drafter.model
        self.draft_length, self.max_nodes = drafter.draft_length, drafter.max_nodes
        self.open, self.close = drafter.open, drafter.close

    def propose(self, requests):
        return [self._change(tree) for tree in self._drafter.propose(requests)]


class Priced:
    """A drafter that is told prices, which depend on the tokens so far."""

    def __init__(self, drafter, prices: Callable[[list[int]], Prices]):
        self._drafter, self._prices = drafter, prices
        self.drafts, self.model = drafter.drafts, drafter.model
        self.draft_length, self.max_nodes = drafter.draft_length, drafter.max_nodes
        self.open, self.close = drafter.open, drafter.close

    def propose(self, requests):
        told = [replace(r, prices=self._prices(r.tokens)) for r in requests]
        return self._drafter.propose(told)


def rebuilt(tree: DraftTree, siblings: Callable) -> DraftTree:
    """The tree with each node's entries (token, proposal, old child or None) as ``siblings(law,
    entries)`` gives them back; what hangs below an old child that is dropped goes too."""
    new = DraftTree([tree.tokens[ROOT]], [-1], [[]])

    def copy(old: int, node: int) -> None:
        entries = [(tree.tokens[e.node], e.proposal, e.node) for e in tree.entries[old]]
        for token, proposal, child in siblings(tree.laws.get(old), entries):
            added = new.add(node, token, proposal)
            if child is not None:
                copy(child, added)

    copy(ROOT, ROOT)
    return new


def drawn_last(law, entries):
    """Lossless: where the drawn one stands does not depend on what it is."""
    return sorted(entries, key=lambda e: e[1] is not None)


def without_rare_choices(law, entries):
    """Lossless: chosen children may go for any reason."""
    return [e for e in entries if e[1] is not None or law is None or float(law[e[0]]) > 0.3]


def without_rare_draws(law, entries):
    """Biased: a drawn child is dropped for its value."""
    return [e for e in entries if e[1] is None or float(e[1][e[0]]) > 0.4]


def all_as_chosen(law, entries):
    """Lossless, and a waste: any token may be tried as a point mass, also one that was drawn."""
    return [(token, None, child) for token, _, child in entries]


def some_as_chosen(law, entries):
    """Biased: a drawn token is made a chosen one because some other source has it too."""
    return [(token, None if token == 0 else r, child) for token, r, child in entries]


def ranked(law, entries):
    """Biased: the drawn one's place depends on its value."""
    return sorted(entries, key=lambda e: e[1] is not None and float(e[1][e[0]]) < 0.5)


def set_apart_too_late(law, entries):
    """Biased: the chosen set is settled after the draw, and its tail claimed as the proposal."""
    if law is None or len(entries) != 1 or entries[0][1] is None:
        return entries
    token, _, child = entries[0]
    tail = law.clone()
    tail[token] = 0.0
    chosen = int(tail.argmax())
    if not float(tail[chosen]) > 0.0:
        return entries
    tail = law.clone()
    tail[chosen] = 0.0
    return [(token, tail / tail.sum(), child), (chosen, None, None)]


def altered(drafter, siblings) -> Altered:
    return Altered(drafter, lambda tree: rebuilt(tree, siblings))


def same_law(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=0, atol=1e-12)
