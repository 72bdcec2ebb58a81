"""K independent drafts of length L from a small model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from multidraft.draft.base import DraftRequest, check_counts
from multidraft.draft.slots import DraftSlots
from multidraft.models.base import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.tree import ROOT, DraftTree


class ModelDrafter:
    """``num_drafts`` i.i.d. chains of ``draft_length`` tokens, advanced as one batched call a step.

    Args:
        model: the draft model, sharing the target's tokenizer.
        num_drafts: K.
        draft_length: L.
        temperature: the draft's own; None takes the request's. At request temperature 0, where K
            identical chains would be no use, None means 1.0 for K > 1 and greedy for K = 1.

    Other sampling parameters (top_k, top_p, penalties, …) are the request's.

    Raises:
        InvalidInput: K or L below 1, or a negative temperature.
    """

    def __init__(
        self,
        model: LanguageModel,
        num_drafts: int = 3,
        draft_length: int = 4,
        temperature: float | None = None,
    ):
        check_counts(num_drafts=num_drafts, draft_length=draft_length)
        if temperature is not None:
            SamplingParams(temperature=temperature)  # raises where it cannot be one
        self.model = model
        self.num_drafts = num_drafts
        self.draft_length = draft_length
        self.temperature = temperature
        self.drafts: Literal["one", "iid", "any"] = "one" if num_drafts == 1 else "iid"
        self.max_nodes = num_drafts * draft_length
        self._slots = DraftSlots(model)

    def open(self, prompt: Sequence[int], params: SamplingParams, vocab_size: int) -> int:
        temperature = self.temperature
        if temperature is None:
            temperature = params.temperature
            if temperature == 0.0 and self.num_drafts > 1:
                temperature = 1.0
        return self._slots.open(prompt, replace(params, temperature=temperature), vocab_size)

    def close(self, handle: int) -> None:
        self._slots.close(handle)

    def propose(self, requests: Sequence[DraftRequest]) -> list[DraftTree]:
        trees = [DraftTree.rooted_at(r.tokens[-1], self.num_drafts) for r in requests]
        # Levels of the draft's law: one per drafted position, and the leaves' where a carry
        # from a longer round still covers them.
        levels = [r.draft_length + (r.carry_left > r.draft_length) for r in requests]
        active = [i for i, count in enumerate(levels) if count > 0]
        self._slots.score_roots([requests[i] for i in active], [trees[i] for i in active])
        for depth in range(max(levels, default=0)):
            frontiers = {
                i: self._draw(requests[i], trees[i])
                for i in active
                if depth < requests[i].draft_length
            }
            active = [i for i in active if levels[i] > depth + 1]
            if not active:
                break
            self._slots.score([requests[i] for i in active], [frontiers[i] for i in active])
        return trees

    def _draw(self, request: DraftRequest, tree: DraftTree) -> list[int]:
        """One more token on every chain; returns the new distinct nodes."""
        first_new = len(tree)
        assert tree.chains is not None
        for chain in tree.chains:
            end = chain[-1] if chain else ROOT
            law = tree.laws[end]
            chain.append(tree.add(end, request.chance.draw(law), law))
        return list(range(first_new, len(tree)))
