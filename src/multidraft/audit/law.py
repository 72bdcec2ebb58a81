"""The exact law of the first n tokens after a prompt, from the target's own logits in float64.

Written apart from `multidraft.sampling` on purpose: an auditor shares no arithmetic with what it
audits. The steps and their order are those of transformers: temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from multidraft.audit.setting import Setting
from multidraft.errors import InvalidInput
from multidraft.models.load import quiet

Tokens = tuple[int, ...]
#: Logits [rows, V] in float64 after contexts of equal length, [rows, length].
LogitsOf = Callable[[np.ndarray], np.ndarray]

# Contexts rarer than this are not followed further, and no more than this many are scored: their
# continuations would be pooled anyway.
_RAREST = 1e-6
_MOST_CONTEXTS = 60_000
# A cut (top-k, top-p, min-p, greedy choice) closer than this could fall either way in float32.
_MARGIN = 1e-5
# More probability than this in contexts with such a cut makes the audit blind.
_MOST_AMBIGUOUS = 0.01
_ROWS = 4096


@dataclass(frozen=True)
class ExactLaw:
    """The law of the first ``num_tokens`` tokens after one prompt, as cells that cover it.

    Attributes:
        prompt: the prompt's token ids.
        num_tokens: n.
        cells: token sequences; a cell shorter than n stands for all its continuations (its
            context is too rare to follow, or a cut in it depends on rounding).
        p: [cells], their probabilities; they sum to 1.
        next_law: for each context that was followed, its next-token law [V].
    """

    prompt: Tokens
    num_tokens: int
    cells: tuple[Tokens, ...]
    p: np.ndarray
    next_law: dict[Tokens, np.ndarray]

    def cell_of(self, tokens: Sequence[int]) -> int:
        """Index of the cell a sample falls in; -1 for one that the law excludes."""
        for length in range(self.num_tokens + 1):
            cell = self._index.get(tuple(tokens[:length]))
            if cell is not None:
                return cell
        return -1

    @cached_property
    def matrix(self) -> np.ndarray:
        """[cells, n] the cells' tokens, -1 after the end of a short one."""
        rows = np.full((len(self.cells), self.num_tokens), -1)
        for row, cell in zip(rows, self.cells, strict=True):
            row[: len(cell)] = cell
        return rows

    @cached_property
    def prefixes(self) -> np.ndarray:
        """[n + 1, cells] for each length, a number for each cell's prefix of that length: cells
        that share the prefix share the number."""
        numbers = np.zeros((self.num_tokens + 1, len(self.cells)), dtype=np.int64)
        for length in range(self.num_tokens):
            pairs = numbers[length] * (self.matrix.max() + 2) + self.matrix[:, length] + 1
            numbers[length + 1] = np.unique(pairs, return_inverse=True)[1]
        return numbers

    @cached_property
    def _index(self) -> dict[Tokens, int]:
        return {cell: i for i, cell in enumerate(self.cells)}


def exact_law(logits_of: LogitsOf, prompt: Sequence[int], setting: Setting) -> ExactLaw:
    """Follow every context of at most n - 1 tokens that is not too rare.

    Args:
        logits_of: the target; see `logits_of_folder`.
        prompt: token ids.
        setting: its sampling parameters and ``num_tokens``.

    Raises:
        InvalidInput: so much of the law hangs on a cut that rounding could move that the audit
            would be blind.
    """
    frontier: dict[Tokens, float] = {(): 1.0}
    leaves: dict[Tokens, float] = {}
    next_law: dict[Tokens, np.ndarray] = {}
    ambiguous = 0.0
    scored = 0
    for _ in range(setting.num_tokens):
        rarest = _rarest(frontier, _MOST_CONTEXTS - scored)
        followed = [c for c, p in frontier.items() if p >= rarest]
        leaves.update((c, p) for c, p in frontier.items() if p < rarest)
        if not followed:
            frontier = {}
            break
        scored += len(followed)
        laws, margins = _laws(logits_of, prompt, followed, setting)
        longer: dict[Tokens, float] = {}
        for context, law, margin in zip(followed, laws, margins, strict=True):
            if margin < _MARGIN:
                ambiguous += frontier[context]
                leaves[context] = frontier[context]
                continue
            next_law[context] = law
            for token in np.flatnonzero(law).tolist():
                longer[*context, token] = frontier[context] * float(law[token])
        frontier = longer
    leaves.update(frontier)
    if ambiguous > _MOST_AMBIGUOUS:
        raise InvalidInput(
            f"In {ambiguous:.0%} of the target's contexts a cut (temperature 0, top_k, top_p or "
            "min_p) lies within rounding; take another value, prompt or seed."
        )
    p = np.array(list(leaves.values()))
    return ExactLaw(tuple(prompt), setting.num_tokens, tuple(leaves), p / p.sum(), next_law)


def _rarest(frontier: dict[Tokens, float], room: int) -> float:
    """The least probability of a context that is followed."""
    if len(frontier) <= room:
        return _RAREST
    if room <= 0:
        return np.inf
    return max(_RAREST, float(np.partition([*frontier.values()], -room)[-room]))


def _laws(
    logits_of: LogitsOf, prompt: Sequence[int], contexts: list[Tokens], setting: Setting
) -> tuple[np.ndarray, np.ndarray]:
    rows = np.array([[*prompt, *context] for context in contexts], dtype=np.int64)
    logits = np.concatenate([logits_of(rows[i : i + _ROWS]) for i in range(0, len(rows), _ROWS)])
    return warp(logits, setting)


def logits_of_folder(folder: Path) -> LogitsOf:
    """The model in a folder, loaded in float64 by transformers and scored without any cache."""
    with quiet():
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float64, attn_implementation="eager", local_files_only=True
        )
    model.eval()

    @torch.inference_mode()
    def logits_of(contexts: np.ndarray) -> np.ndarray:
        ids = torch.from_numpy(contexts)
        logits: np.ndarray = model(ids, use_cache=False, logits_to_keep=1).logits[:, -1].numpy()
        return logits

    return logits_of


def warp(logits: np.ndarray, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Laws [rows, V], and for each row how far its nearest cut is from moving a token.

    The distance is in logits for temperature 0 and top-k, in probability for top-p (and in the
    ratio of the next token to the last that is kept, which must not change places), in the ratio
    to the likeliest for min-p. A low temperature makes rounding larger: the distance counts less.
    """
    if setting.temperature == 0:
        top = -np.sort(-logits, axis=1)
        return np.eye(logits.shape[1])[logits.argmax(1)], top[:, 0] - top[:, 1]
    margin = np.full(len(logits), np.inf)
    with np.errstate(over="ignore"):  # a point mass at a temperature of next to nothing
        logits = (logits - logits.max(1, keepdims=True)) / setting.temperature
    size = logits.shape[1]
    if 0 < setting.top_k < size:
        top = -np.sort(-logits, axis=1)
        with np.errstate(invalid="ignore"):
            margin = np.minimum(margin, top[:, setting.top_k - 1] - top[:, setting.top_k])
        logits = np.where(logits >= top[:, setting.top_k - 1 : setting.top_k], logits, -np.inf)
    laws = _normalised(np.exp(logits))
    if setting.top_p < 1:
        order = np.argsort(-laws, axis=1, kind="stable")
        ranked = np.take_along_axis(laws, order, 1)
        sums = ranked.cumsum(1)
        margin = np.minimum(margin, abs(sums - setting.top_p).min(1))
        kept = sums - ranked < setting.top_p
        last = kept.sum(1) - 1
        at = np.arange(len(laws))
        following = np.where(last + 1 < size, ranked[at, np.minimum(last + 1, size - 1)], 0.0)
        margin = np.minimum(margin, 1 - following / ranked[at, last])
        laws = laws * np.take_along_axis(kept, np.argsort(order, axis=1), 1)
    if setting.min_p > 0:
        ratio = laws / laws.max(1, keepdims=True)
        movable = laws > 0
        movable[np.arange(len(laws)), laws.argmax(1)] = (
            False  # the likeliest stays, even at min-p 1
        )
        margin = np.minimum(margin, np.where(movable, abs(ratio - setting.min_p), np.inf).min(1))
        laws = laws * (ratio >= setting.min_p)
    return _normalised(laws), margin * min(1.0, setting.temperature)


def _normalised(weights: np.ndarray) -> np.ndarray:
    normalised: np.ndarray = weights / weights.sum(1, keepdims=True)
    return normalised
