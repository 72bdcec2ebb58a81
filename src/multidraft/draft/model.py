"""K independent drafts of length L from a small model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from multidraft.draft.base import DraftRequest
from multidraft.errors import InvalidInput, InvalidLogits
from multidraft.models.base import PREFIX, Extension, LanguageModel
from multidraft.sampling import SamplingParams, Warper
from multidraft.tree import ROOT, DraftTree

#: A draft that fell further behind than this catches up by prefill, not inside a draft call.
_LONGEST_CATCH_UP = 16


@dataclass
class _State:
    """One sequence in the draft model.

    Attributes:
        slot: its slot.
        vocab_size: width of the laws, the target's.
        warper: turns draft logits into the draft's law.
        behind: tokens scored by the last round's first call, as open nodes 0, 1, …; the last
            one is that round's root.
        tree: last round's tree.
        scored: open node of each tree node that the draft model has scored.
    """

    slot: int
    vocab_size: int
    warper: Warper
    seen: int  # tokens the warper knows
    behind: int = 0
    tree: DraftTree | None = None
    scored: dict[int, int] = field(default_factory=dict)


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
        for name, value in (("num_drafts", num_drafts), ("draft_length", draft_length)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidInput(f"{name} must be an integer of at least 1, not {value!r}.")
        if temperature is not None:
            SamplingParams(temperature=temperature)  # raises where it cannot be one
        self.model = model
        self.num_drafts = num_drafts
        self.draft_length = draft_length
        self.temperature = temperature
        self.drafts: Literal["one", "iid", "any"] = "one" if num_drafts == 1 else "iid"
        self.max_nodes = num_drafts * draft_length
        self._states: dict[int, _State] = {}

    def open(self, prompt: Sequence[int], params: SamplingParams, vocab_size: int) -> int:
        temperature = self.temperature
        if temperature is None:
            temperature = params.temperature
            if temperature == 0.0 and self.num_drafts > 1:
                temperature = 1.0
        warper = Warper(
            replace(params, temperature=temperature), prompt, vocab_size, self.model.device
        )
        slot = self.model.open()
        self._states[slot] = _State(slot, vocab_size, warper, len(prompt))
        return slot

    def close(self, handle: int) -> None:
        del self._states[handle]
        self.model.close(handle)

    def propose(self, requests: Sequence[DraftRequest]) -> list[DraftTree]:
        trees = [DraftTree.rooted_at(r.tokens[-1], self.num_drafts) for r in requests]
        # Levels of the draft's law: one per drafted position, and the leaves' where a carry
        # from a longer round still covers them.
        levels = [r.draft_length + (r.carry_left > r.draft_length) for r in requests]
        active = [i for i, count in enumerate(levels) if count > 0]
        logits = self._score_roots([requests[i] for i in active], [trees[i] for i in active])
        frontiers = {i: [ROOT] for i in active}
        for depth in range(max(levels, default=0)):
            for i, rows in zip(active, logits, strict=True):
                request, tree = requests[i], trees[i]
                state = self._states[request.handle]
                for node, row in zip(frontiers[i], rows, strict=True):
                    tree.laws[node] = _law(state, row, tree.path_tokens(node))
                frontiers[i] = self._draw(request, tree) if depth < request.draft_length else []
            active = [i for i in active if levels[i] > depth + 1]
            if not active:
                break
            logits = self._score([requests[i] for i in active], [frontiers[i] for i in active])
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

    def _score_roots(
        self, requests: Sequence[DraftRequest], trees: Sequence[DraftTree]
    ) -> list[torch.Tensor]:
        """Bring each slot up to its sequence's last token; logits after that token, [1, V] each."""
        extensions = []
        for request, tree in zip(requests, trees, strict=True):
            state = self._states[request.handle]
            self._commit_matching(state, request.tokens)
            behind = self._known(request.tokens[self.model.length(state.slot) :])
            if len(behind) > _LONGEST_CATCH_UP:
                self.model.prefill(state.slot, behind[:-1])
                behind = behind[-1:]
            for token in request.tokens[state.seen :]:
                state.warper.append(token)
            state.seen = len(request.tokens)
            state.behind, state.tree = len(behind), tree
            state.scored = {ROOT: len(behind) - 1}
            parents = [PREFIX, *range(len(behind) - 1)]
            extensions.append(Extension(state.slot, behind, parents, [len(behind) - 1]))
        return self.model.extend(extensions) if extensions else []

    def _known(self, tokens: Sequence[int]) -> list[int]:
        """An id in the target's padding may lie outside the draft's embedding. What stands in for
        it changes the draft's law, never the output's."""
        last = self.model.vocab_size - 1
        return [min(token, last) for token in tokens]

    def _commit_matching(self, state: _State, tokens: Sequence[int]) -> None:
        """Keep what last round's draft call scored and the sequence went on to emit."""
        if state.tree is None:
            return
        path = list(range(state.behind))
        node: int | None = ROOT
        # The last token may be in the tree too (a residual draw that another draft held); it stays
        # out, as its logits are needed anew.
        for token in tokens[self.model.length(state.slot) + state.behind : -1]:
            node = state.tree.child(node, token) if node is not None else None
            if node is None or node not in state.scored:
                break
            path.append(state.scored[node])
        self.model.commit(state.slot, path)
        state.tree = None

    def _score(
        self, requests: Sequence[DraftRequest], frontiers: Sequence[list[int]]
    ) -> list[torch.Tensor]:
        extensions = []
        for request, frontier in zip(requests, frontiers, strict=True):
            state = self._states[request.handle]
            assert state.tree is not None
            tokens = self._known([state.tree.tokens[n] for n in frontier])
            parents = [state.scored[state.tree.parents[n]] for n in frontier]
            first = state.behind + len(state.scored) - 1
            for offset, node in enumerate(frontier):
                state.scored[node] = first + offset
            extensions.append(Extension(state.slot, tokens, parents))
        return self.model.extend(extensions)


def _law(state: _State, row: torch.Tensor, path: Sequence[int]) -> torch.Tensor:
    """The draft's law from a row of its logits."""
    try:
        return state.warper.law(resized(row, state.vocab_size), path)
    except InvalidLogits:
        if not row.max().isfinite():
            raise
        # The model is sound, but the request bans all that it shares with the target. Any law
        # will do to propose from, so the target decides whether there is an answer.
        wide = row.dtype if row.dtype == torch.float64 else torch.float32
        return torch.full((state.vocab_size,), 1 / state.vocab_size, dtype=wide, device=row.device)


def resized(row: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """A row of logits cut or filled up (-inf) to ``vocab_size``.

    Models of one family pad the same vocabulary to different widths. The law that is left is
    the one the draft draws from, so nothing is lost.
    """
    if row.numel() >= vocab_size:
        return row[:vocab_size]
    padding = row.new_full((vocab_size - row.numel(),), -torch.inf)
    return torch.cat([row, padding])
