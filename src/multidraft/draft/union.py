"""Prompt lookup and a draft model in one tree, verified at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from multidraft.draft.base import DraftRequest, offered
from multidraft.draft.hybrid import HybridTreeDrafter
from multidraft.draft.lookup import LookupDrafter
from multidraft.models.base import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.tree import DraftTree


class UnionDrafter:
    """The trees of a `LookupDrafter` and a `HybridTreeDrafter` as one.

    At each node lookup's tokens are chosen first, and set apart before the model's token is drawn:
    what is drawn is drawn outside them, and stays a drawn entry. The model goes on from lookup's
    nodes where it finds them likely; where lookup goes on beyond the model, its nodes hang on.

    Each source has its own budget: ``max_nodes`` is the sum of both. The model is not asked where
    lookup alone is expected to add more (`Prices.model_gain`).

    Args:
        lookup: proposes the tokens that came before.
        tree_drafter: grows its tree around them.
    """

    drafts: Literal["one", "iid", "any"] = "any"

    def __init__(self, lookup: LookupDrafter, tree_drafter: HybridTreeDrafter):
        self.lookup = lookup
        self.tree_drafter = tree_drafter
        self.draft_length = max(lookup.draft_length, tree_drafter.draft_length)
        self.max_nodes = lookup.max_nodes + tree_drafter.max_nodes
        self.model: LanguageModel | None = tree_drafter.model
        self._lookup_handle: dict[int, int] = {}  # by the tree drafter's, which is this one's too

    def open(self, prompt: Sequence[int], params: SamplingParams, vocab_size: int) -> int:
        lookup_handle = self.lookup.open(prompt, params, vocab_size)
        try:
            handle = self.tree_drafter.open(prompt, params, vocab_size)
        except BaseException:  # no free slot: nothing was begun
            self.lookup.close(lookup_handle)
            raise
        self._lookup_handle[handle] = lookup_handle
        return handle

    def close(self, handle: int) -> None:
        self.lookup.close(self._lookup_handle.pop(handle))
        self.tree_drafter.close(handle)

    def propose(self, requests: Sequence[DraftRequest]) -> list[DraftTree]:
        found = [
            self.lookup.find(replace(r, handle=self._lookup_handle[r.handle])) for r in requests
        ]
        asked, given = [], []
        for request, tree in zip(requests, found, strict=True):
            worth = offered(tree, request.prices)
            if worth > 0.0:  # scored with or without the model
                request = replace(request, prices=replace(request.prices, sure=0.0))
            if request.prices.model_gain <= max(0.0, worth):
                request = replace(request, draft_length=0)
                tree = tree if worth > 0.0 else DraftTree.rooted_at(tree.tokens[0])
            asked.append(request)
            given.append(tree)
        return self.tree_drafter.propose_around(asked, given)
