"""One hybrid tree while it grows, depth by depth: the chosen set, the tail draw, what is left over.

At a node the tokens of the set D are *chosen* and one more is *drawn* from norm(p with D set to 0).
D is complete before the draw, and a drawn token is never dropped, moved or made a chosen one: its
proposal law would no longer be the one it was drawn from, and the output would be biased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from multidraft.chance import Chance
from multidraft.draft.base import Prices
from multidraft.draft.shape import Prospect, allot, gains, guess, tail_weight
from multidraft.sampling import top_k_ids
from multidraft.tree import ROOT, DraftTree


@dataclass(frozen=True)
class _Options:
    """What may become a node's children: tokens, with guesses at their probabilities.

    Attributes:
        given: the tokens another source chose there.
        likeliest: the others that may be chosen, likeliest first, ties by id.
        prospect: the same, as `multidraft.draft.shape` takes it.
    """

    given: dict[int, float]
    likeliest: dict[int, float]
    prospect: Prospect


class Growth:
    """Grows one tree.

    Args:
        root: its root's token.
        budget: the most nodes it gets besides the given ones.
        levels: the most tokens on a path, the given ones beyond it excepted.
        all_chosen: nothing is drawn, as the target is greedy.
        given: a tree of chosen nodes that becomes part of this one.
        chance: the sequence's random stream.
        prices: what nodes and draft calls must be worth.

    Attributes:
        tree: the tree. Its ``laws`` must hold the draft's law at each node of the frontier before
            `add_children`.
        frontier: the nodes that get children next.
    """

    def __init__(
        self,
        root: int,
        budget: int,
        levels: int,
        all_chosen: bool,
        given: DraftTree,
        chance: Chance,
        prices: Prices,
    ):
        self.tree = DraftTree([root], [-1], [[]])
        self.frontier = [ROOT] if levels > 0 else []
        self._left = budget
        self._levels_left = levels
        self._depth = 0
        self._prices = prices
        self._all_chosen = all_chosen
        self._given = given
        self._chance = chance
        self._twin = {ROOT: ROOT}  # the given node that a node of the tree stands for
        self._reach = self.tree.reach  # see `multidraft.draft.shape`
        self._reach[ROOT] = 1.0
        self._weight = {ROOT: 1.0}

    def add_children(self, width: int | None) -> None:
        """Children for the frontier, which moves on to those of them that may go on.

        ``width``: how many each node gets besides the given ones; None: as the budget is best
        spent.
        """
        nodes, first_new = self.frontier, len(self.tree)
        # How many and which are chosen is settled for the whole depth before any draw of it.
        options = [self._options(node) for node in nodes]
        if width is None:
            prospects = [o.prospect for o in options]
            counts = allot(prospects, self._left, self._levels_left, self._prices.node)
        else:
            counts = _filled(width, len(nodes), self._left)
        if self._depth == 0 and not self._is_worth_scoring(options[0], counts[0]):
            self._given = DraftTree.rooted_at(self.tree.tokens[ROOT])
            self.frontier = []
            return
        for node, option, count in zip(nodes, options, counts, strict=True):
            self._add_below(node, option, count)
        self._levels_left -= 1
        self._depth += 1
        new = range(first_new, len(self.tree))
        # Each that goes on takes at least one of the nodes left, so no more than these go on.
        going_on = sorted(new, key=lambda n: -self._reach[n])[: self._left]
        # What one more level adds never grows with depth: once it is not worth a call, none is.
        reliance = self._prices.reliance(sum(self._reach[n] for n in going_on))
        worth = sum(max(0.0, reliance * self._reach[n] - self._prices.node) for n in going_on)
        go_on = self._levels_left > 0 and worth >= self._prices.call(self._depth + 1)
        self.frontier = sorted(going_on) if go_on else []

    def _is_worth_scoring(self, options: _Options, count: int) -> bool:
        """Whether the draft is sure enough of the root's children for any to be scored."""
        reach = sum(options.given.values()) + sum(gains(options.prospect, count))
        return min(1.0, reach) >= self._prices.sure

    def add_rest(self) -> None:
        """Hang on the given nodes below those whose children are there already."""
        place = {twin: node for node, twin in self._twin.items()}
        for given in range(1, len(self._given)):  # parents come before children
            if given not in place:
                parent = place[self._given.parents[given]]
                place[given] = self.tree.add(parent, self._given.tokens[given], None)
                if given in self._given.reach:
                    self._reach[place[given]] = self._given.reach[given]

    def _options(self, node: int) -> _Options:
        law = self.tree.laws[node]
        # A greedy target's choice is likelier than the draft's law says, not less likely.
        guessed = law if self._all_chosen else guess(law)
        given: dict[int, float] = {}
        if node in self._twin:
            entries = self._given.entries[self._twin[node]]
            tokens = [self._given.tokens[entry.node] for entry in entries]
            given = {token: float(guessed[token]) for token in tokens}
        most = likeliest_tokens(law, self._left + len(given))
        free = [token for token in most if token not in given]
        likeliest = dict(zip(free, guessed[free].tolist(), strict=True))
        prospect = Prospect(
            self._reach[node],
            self._weight[node],
            list(given.values()),
            list(likeliest.values()),
            float(guessed.dot(guessed)),
            not self._all_chosen,
        )
        return _Options(given, likeliest, prospect)

    def _add_below(self, node: int, options: _Options, count: int) -> None:
        """The given children and ``count`` more: the drawn one first, then the chosen ones."""
        drawn = count > 0 and not self._all_chosen
        taken = list(options.likeliest.items())[: count - 1 if drawn else count]
        chosen = sorted((*options.given.items(), *taken), key=lambda item: (-item[1], item[0]))
        weight, tried = self._weight[node], 0.0
        if weight > 0:
            tried = self._reach[node] / weight  # P(the verifier comes to try this node)
        unaccepted = 1.0
        self._left -= len(taken)
        children: list[tuple[int, float]] = []
        if drawn:
            tail = outside(self.tree.laws[node], [token for token, _ in chosen])
            if tail is not None:
                child = self.tree.add(node, self._chance.draw(tail), tail)
                guesses = [p for _, p in chosen]
                children.append((child, tail_weight(weight, options.prospect.squares, guesses)))
                self._left -= 1
        for token, p in chosen:
            child = self.tree.add(node, token, None)
            children.append((child, weight * p))
            if token in options.given:
                twin = self._given.child(self._twin[node], token)
                assert twin is not None
                self._twin[child] = twin
        for child, share in children:
            self._reach[child] = tried * share
            self._weight[child] = min(1.0, share / unaccepted) if unaccepted > 0 else 1.0
            unaccepted = max(0.0, unaccepted - share)


def _filled(width: int, nodes: int, budget: int) -> list[int]:
    """``width`` for each node, in order, until the budget is spent."""
    return [max(0, min(width, budget - i * width)) for i in range(nodes)]


def outside(law: torch.Tensor, chosen: Sequence[int]) -> torch.Tensor | None:
    """norm(p with D set to 0), [V]; None where no mass is left."""
    if not chosen:
        return law
    tail = law.clone()
    tail[list(chosen)] = 0
    mass = tail.sum()  # of what is left: 1 − Σ chosen would leave rounding errors to draw from
    return tail.div_(mass) if float(mass) > 0 else None


def likeliest_tokens(law: torch.Tensor, count: int) -> list[int]:
    """The ``count`` likeliest tokens of a law [V], likeliest first, ties by id."""
    if count < 1:
        return []
    ids = top_k_ids(law, min(count, law.numel()))
    assert ids is not None  # a law has no NaN and no infinity
    values = law[ids]
    # Of those that equal the last one, only the lowest ids.
    above = values > values.min()
    free = count - int(above.sum())
    ids = torch.cat([ids[above], ids[~above][:free]])
    pairs = zip(law[ids].tolist(), ids.tolist(), strict=True)
    return [token for _, token in sorted(pairs, key=lambda pair: (-pair[0], pair[1]))]
