"""What every drafter with a model shares: its slots, its cache, and its own laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from multidraft.draft.base import DraftRequest
from multidraft.errors import InvalidLogits
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
        seen: tokens the warper knows.
        behind: tokens scored by the last round's first call, as open nodes 0, 1, …; the last
            one is that round's root.
        tree: last round's tree.
        scored: open node of each tree node that the draft model has scored.
    """

    slot: int
    vocab_size: int
    warper: Warper
    seen: int
    behind: int = 0
    tree: DraftTree | None = None
    scored: dict[int, int] = field(default_factory=dict)


class DraftSlots:
    """A draft model's slot per sequence, and the laws of this round's trees, level by level.

    A round calls `score_roots` once and then `score` once per further level. Each is one call of
    the model for all sequences; each writes the draft's laws into the trees.

    Args:
        model: the draft model, sharing the target's tokenizer.
    """

    def __init__(self, model: LanguageModel):
        self._model = model
        self._states: dict[int, _State] = {}

    def open(self, prompt: Sequence[int], params: SamplingParams, vocab_size: int) -> int:
        """Take a slot for a sequence; its number is the handle. ``params`` are the draft's own."""
        warper = Warper(params, prompt, vocab_size, self._model.device)
        slot = self._model.open()
        self._states[slot] = _State(slot, vocab_size, warper, len(prompt))
        return slot

    def close(self, handle: int) -> None:
        del self._states[handle]
        self._model.close(handle)

    def score_roots(self, requests: Sequence[DraftRequest], trees: Sequence[DraftTree]) -> None:
        """Bring each slot up to its sequence's last token, the root of its new tree."""
        extensions = []
        for request, tree in zip(requests, trees, strict=True):
            state = self._states[request.handle]
            self._commit_matching(state, request.tokens)
            behind = self._known(request.tokens[self._model.length(state.slot) :])
            if len(behind) > _LONGEST_CATCH_UP:
                self._model.prefill(state.slot, behind[:-1])
                behind = behind[-1:]
            for token in request.tokens[state.seen :]:
                state.warper.append(token)
            state.seen = len(request.tokens)
            state.behind, state.tree = len(behind), tree
            state.scored = {ROOT: len(behind) - 1}
            parents = [PREFIX, *range(len(behind) - 1)]
            extensions.append(Extension(state.slot, behind, parents, [len(behind) - 1]))
        self._extend(requests, [[ROOT]] * len(requests), extensions)

    def score(self, requests: Sequence[DraftRequest], frontiers: Sequence[Sequence[int]]) -> None:
        """Score new nodes of each tree; the parents of all have been scored before."""
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
        self._extend(requests, frontiers, extensions)

    def _extend(
        self,
        requests: Sequence[DraftRequest],
        frontiers: Sequence[Sequence[int]],
        extensions: Sequence[Extension],
    ) -> None:
        logits = self._model.extend(extensions) if extensions else []
        for request, frontier, rows in zip(requests, frontiers, logits, strict=True):
            state = self._states[request.handle]
            assert state.tree is not None
            paths = [state.tree.path_tokens(node) for node in frontier]
            state.tree.laws.update(zip(frontier, _laws(state, rows, paths), strict=True))

    def _known(self, tokens: Sequence[int]) -> list[int]:
        """An id in the target's padding may lie outside the draft's embedding. What stands in for
        it changes the draft's law, never the output's."""
        last = self._model.vocab_size - 1
        return [min(token, last) for token in tokens]

    def _commit_matching(self, state: _State, tokens: Sequence[int]) -> None:
        """Keep what last round's draft calls scored and the sequence went on to emit."""
        if state.tree is None:
            return
        path = list(range(state.behind))
        node: int | None = ROOT
        # The last token may be in the tree too (a residual draw that another draft held); it stays
        # out, as its logits are needed anew.
        for token in tokens[self._model.length(state.slot) + state.behind : -1]:
            node = state.tree.child(node, token) if node is not None else None
            if node is None or node not in state.scored:
                break
            path.append(state.scored[node])
        self._model.commit(state.slot, path)
        state.tree = None


def _laws(
    state: _State, rows: torch.Tensor, paths: Sequence[Sequence[int]]
) -> Sequence[torch.Tensor]:
    """The draft's laws from rows of its logits, together where that can be."""
    try:
        return state.warper.laws(resized(rows, state.vocab_size), paths).unbind()
    except InvalidLogits:
        return [_law(state, row, path) for row, path in zip(rows, paths, strict=True)]


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


def resized(rows: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Rows of logits [..., V'] cut or filled up (-inf) to ``vocab_size``.

    Models of one family pad the same vocabulary to different widths. The law that is left is
    the one the draft draws from, so nothing is lost.
    """
    missing = vocab_size - rows.shape[-1]
    if missing <= 0:
        return rows[..., :vocab_size]
    return torch.nn.functional.pad(rows, (0, missing), value=-torch.inf)
