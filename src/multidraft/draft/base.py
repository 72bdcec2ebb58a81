"""The seam between the engine and whatever proposes tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from multidraft.chance import Chance
from multidraft.errors import InvalidInput
from multidraft.models.base import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.tree import DraftTree


@dataclass(frozen=True)
class Prices:
    """What parts of a tree must be worth, in tokens that they are expected to add. Drafters that
    shape trees leave out what is worth less. Set before the round, from past rounds alone.

    Attributes:
        node: of a position that the target scores.
        first: besides, of scoring any that was looked up: on some CPUs two positions take twice as
            long as one, and a third hardly more.
        calls: of the draft model's first call, its second, and so on; the last one is that of all
            deeper calls too. Empty: calls are free.
        draft: accepted tokens for each that the draft model expected to be, by `sureness` of the
            nodes that the call goes on from. Empty: it is believed.
        lookup: accepted tokens for each that lookup expected to be: its estimates are corrected by
            it.
        sure: the draft model's probability that one of the root's children is accepted below which
            none of them is worth scoring.
        model_gain: what asking the draft model is expected to add in all, prices paid. Where lookup
            is expected to add more, the model is not asked.
    """

    node: float = 0.0
    first: float = 0.0
    calls: tuple[float, ...] = ()
    draft: tuple[float, ...] = ()
    lookup: float = 1.0
    sure: float = 0.0
    model_gain: float = math.inf

    def call(self, depth: int) -> float:
        """Price of the call that gives the tokens at ``depth``, which is 1 below the root."""
        return self.calls[min(depth, len(self.calls)) - 1] if self.calls else 0.0

    def reliance(self, reach: float) -> float:
        """Accepted tokens for each that the draft model expected to be, of a call that goes on
        from nodes one of which is accepted with probability ``reach``, as it thinks."""
        return self.draft[sureness(reach)] if self.draft else 1.0


FREE = Prices()


def offered(tree: DraftTree, prices: Prices) -> float:
    """Tokens that a tree of given nodes is expected to add, prices paid."""
    if len(tree) == 1:
        return 0.0
    return sum(reach - prices.node for reach in tree.reach.values()) - prices.first


#: Between the classes of `sureness`.
_SURE = (0.99, 0.97, 0.94, 0.9, 0.8, 0.65, 0.4)
#: How many there are.
SURENESSES = len(_SURE) + 1


def sureness(reach: float) -> int:
    """How sure a draft is of nodes one of which it thinks accepted with probability ``reach``: a
    class, from 0 (sure). In some classes it may be right, in others not."""
    return sum(reach < edge for edge in _SURE)


def least_sure(kind: int) -> float:
    """The least reach of a class."""
    return (*_SURE, 0.0)[kind]


@dataclass(frozen=True)
class DraftRequest:
    """What a drafter is told about one sequence before a round.

    Attributes:
        handle: what `Drafter.open` returned for the sequence.
        tokens: all its tokens so far, prompt included; the last one is the tree's root.
        draft_length: the most tokens a draft may have this round; 0 for a plain step.
        carry_left: positions below the root (the next one is position 1) that a live carry
            covers. The draft's own law must be in ``tree.laws`` at every node at depth
            < carry_left, leaves included.
        chance: the sequence's random stream.
        prices: for drafters that shape their trees.
    """

    handle: int
    tokens: Sequence[int]
    draft_length: int
    carry_left: int
    chance: Chance
    prices: Prices = FREE


class Drafter(Protocol):
    """Proposes a `DraftTree` per sequence and round. It owns its model's cache.

    Attributes:
        drafts: the shape of its trees: "one" chain, several "iid" chains, or another ("any").
        draft_length: the most tokens below the root.
        max_nodes: the most nodes below the root.
        model: the draft model, or None where there is none.
    """

    @property
    def drafts(self) -> Literal["one", "iid", "any"]: ...
    @property
    def draft_length(self) -> int: ...
    @property
    def max_nodes(self) -> int: ...
    @property
    def model(self) -> LanguageModel | None: ...

    def open(self, prompt: Sequence[int], params: SamplingParams, vocab_size: int) -> int:
        """Begin a sequence; returns its handle, which is not negative. ``vocab_size`` is the
        target's, the width of every law in the trees."""
        ...

    def close(self, handle: int) -> None:
        """Forget a sequence."""
        ...

    def propose(self, requests: Sequence[DraftRequest]) -> list[DraftTree]:
        """One tree per request. A tree's shape may depend on anything known before its draws,
        never on the value of a drawn token's siblings (see docs on losslessness).

        A controller asks for less by `DraftRequest.draft_length` and, of trees of "any" shape, by
        `DraftRequest.prices`: with ``model_gain`` of -inf the draft model is not to be asked. Such
        trees say in ``reach`` what each node is expected to be accepted with."""
        ...


def check_counts(**counts: int) -> None:
    """Raises InvalidInput unless each is an integer of at least 1."""
    for name, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidInput(f"{name} must be an integer of at least 1, not {value!r}.")
