"""Hybrid trees: at each node the likeliest tokens chosen, and one drawn from the tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from multidraft.draft.base import DraftRequest, check_counts
from multidraft.draft.growth import Growth
from multidraft.draft.slots import DraftSlots
from multidraft.errors import InvalidInput
from multidraft.models.base import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.tree import DraftTree


class HybridTreeDrafter:
    """A tree of at most ``max_nodes`` tokens from a draft model, one batched call per depth.

    A node with w children has the w − 1 likeliest tokens chosen and one drawn from the tail outside
    them, which comes first in the sibling order; w = 1 is a plain draw from the draft. Where the
    draft is unsure a node gets more children; a path that is unlikely to be accepted ends, and the
    tree where no path is worth a further draft call (`Prices`). At request temperature 0 all
    children are chosen. Verified by "traversal" or "specinfer".

    Args:
        model: the draft model, sharing the target's tokenizer.
        draft_length: L, the most tokens on a path.
        max_nodes: the most nodes below the root, each of them a position the target scores. None:
            3 · L, as many as three drafts have.
        widths: a fixed shape in place of one by budget: children of the root, of each node below
            it, and so on; 1 where it ends. It decides ``max_nodes``.
        temperature: the draft's own; None takes the request's, and 1.0 where that is 0.

    Other sampling parameters (top_k, top_p, penalties, …) are the request's.

    Raises:
        InvalidInput: a count below 1, ``max_nodes`` together with ``widths``, more widths than
            ``draft_length``, or a negative temperature.
    """

    drafts: Literal["one", "iid", "any"] = "any"

    def __init__(
        self,
        model: LanguageModel,
        draft_length: int = 6,
        max_nodes: int | None = None,
        widths: Sequence[int] | None = None,
        temperature: float | None = None,
    ):
        check_counts(draft_length=draft_length)
        if temperature is not None:
            SamplingParams(temperature=temperature)  # raises where it cannot be one
        if widths is not None:
            if max_nodes is not None:
                raise InvalidInput("Give max_nodes or widths, not both: widths decide the size.")
            widths = _every_width(widths, draft_length)
            max_nodes = _size(widths)
        elif max_nodes is None:
            max_nodes = 3 * draft_length
        check_counts(max_nodes=max_nodes)
        self.model = model
        self.draft_length = draft_length
        self.max_nodes = max_nodes
        self.widths = widths
        self.temperature = temperature
        self._slots = DraftSlots(model)
        self._greedy: dict[int, bool] = {}  # by handle: the request's temperature is 0

    def open(self, prompt: Sequence[int], params: SamplingParams, vocab_size: int) -> int:
        temperature = self.temperature
        if temperature is None:
            temperature = params.temperature or 1.0
        handle = self._slots.open(prompt, replace(params, temperature=temperature), vocab_size)
        self._greedy[handle] = params.temperature == 0
        return handle

    def close(self, handle: int) -> None:
        self._slots.close(handle)
        del self._greedy[handle]

    def propose(self, requests: Sequence[DraftRequest]) -> list[DraftTree]:
        asked = [r if r.prices.model_gain > 0 else replace(r, draft_length=0) for r in requests]
        nothing = [DraftTree.rooted_at(request.tokens[-1]) for request in requests]
        return self.propose_around(asked, nothing)

    def propose_around(
        self, requests: Sequence[DraftRequest], given: Sequence[DraftTree]
    ) -> list[DraftTree]:
        """Trees that hold, besides up to ``max_nodes`` of this drafter's own, all nodes of the
        trees ``given``, which are chosen ones.

        The draft scores given nodes too, within ``draft_length`` and where they are likely enough,
        and gives them children. A given token is set apart before its drawn sibling is drawn.
        """
        growths = [
            Growth(
                root=request.tokens[-1],
                budget=self.max_nodes,
                levels=min(request.draft_length, self.draft_length),
                all_chosen=self._greedy[request.handle],
                given=tree,
                chance=request.chance,
                prices=request.prices,
            )
            for request, tree in zip(requests, given, strict=True)
        ]
        growing = [(r, g) for r, g in zip(requests, growths, strict=True) if g.frontier]
        self._slots.score_roots([r for r, _ in growing], [g.tree for _, g in growing])
        for depth in range(self.draft_length):
            for _, growth in growing:
                growth.add_children(None if self.widths is None else self.widths[depth])
            growing = [(r, g) for r, g in growing if g.frontier]
            if not growing:
                break
            self._slots.score([r for r, _ in growing], [g.frontier for _, g in growing])
        for growth in growths:
            growth.add_rest()
        return [growth.tree for growth in growths]


def _every_width(widths: Sequence[int], draft_length: int) -> list[int]:
    """Children of a node at each depth, filled up with 1."""
    for width in widths:
        check_counts(widths=width)
    if len(widths) > draft_length:
        raise InvalidInput(
            f"There are {len(widths)} widths, but paths have at most {draft_length} tokens; give "
            "fewer widths or a larger draft_length."
        )
    return [*widths, *[1] * (draft_length - len(widths))]


def _size(widths: Sequence[int]) -> int:
    """Nodes below the root of a tree with these numbers of children."""
    size, nodes = 0, 1
    for width in widths:
        nodes *= width
        size += nodes
    return size
