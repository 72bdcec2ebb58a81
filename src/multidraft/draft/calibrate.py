"""Which of a target's layers to keep for drafting, found on sample text.

Layers are left out one by one. Each time the one goes without which the law of the next token stays
closest to the target's: the overlap, sum over x of min(p(x), q(x)), is the probability that a
token drawn from q is accepted. That gives one set of layers for each size; the best is the one
whose drafts are expected to be fastest on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch

from multidraft.engine.control.costs import measure
from multidraft.errors import InvalidInput
from multidraft.models.base import PREFIX, Extension, LanguageModel
from multidraft.models.transformers_model import TransformersModel

_CHUNK = 64  # positions scored at once: a law takes 0.6 MB at a vocabulary of 152,000
_TRIED = 4  # layers tried at each step, those that were missed least when left out alone
_FEWEST = 0.25  # of the layers; with fewer, no model drafts anything of use
_LONGEST = 16  # draft lengths considered


@dataclass(frozen=True)
class Candidate:
    """One choice of layers.

    Attributes:
        layers: those that are kept.
        overlap: mean over the text of sum_x min(p(x), q(x)), at temperature 1.
        cost: a draft step's time as a share of the target's.
        draft_length: L, the best for one draft.
        speed_up: expected with it, over plain decoding: (1 - a^(L+1)) / ((1 - a) (1 + c L)) for
            overlap a and cost c (Leviathan et al. 2023, theorem 3.8); 1 with L = 0 where no L pays.
    """

    layers: tuple[int, ...]
    overlap: float
    cost: float
    draft_length: int
    speed_up: float


def calibrate(
    target: TransformersModel,
    text: Sequence[int],
    told: Callable[[int, int], None] = lambda done, total: None,
) -> list[Candidate]:
    """The best choice of layers of each size, most layers first.

    Args:
        target: with a free slot.
        text: tokens of sample text, such as the target will write; a few hundred will do.
        told: of trials done, and of all there are.

    Raises:
        InvalidInput: fewer than 16 tokens, more than the target's context, or a target of fewer
            than two layers.
        UnsupportedModel: a target that does not run without some of its layers.
    """
    if not 16 <= len(text) <= target.max_length:
        raise InvalidInput(
            f"Calibration takes 16 to {target.max_length} tokens of text, not {len(text)}."
        )
    total = target.num_layers
    if total < 2:
        raise InvalidInput("The target has one layer, which cannot be left out.")
    fewest = max(1, round(_FEWEST * total))
    trials = total + _TRIED * max(0, total - 1 - fewest)
    done = 0

    laws = list(_laws(target, text))
    step = measure(target, (1,))(1)

    def overlap(layers: Sequence[int]) -> float:
        nonlocal done
        done += 1
        told(done, trials)
        return _overlap(target.with_layers(layers), text, laws)

    kept = list(range(total))
    alone = {layer: overlap(_without(kept, layer)) for layer in kept}
    found: list[Candidate] = []
    while len(kept) > fewest:
        if not found:
            layer, best = max(alone.items(), key=lambda item: item[1])
        else:
            least = sorted(kept, key=lambda each: -alone[each])[:_TRIED]
            tried = {each: overlap(_without(kept, each)) for each in least}
            layer, best = max(tried.items(), key=lambda item: item[1])
        kept = _without(kept, layer)
        cost = measure(target.with_layers(kept), (1,))(1) / step
        length, speed_up = best_draft(best, cost)
        found.append(Candidate(tuple(kept), best, cost, length, speed_up))
    told(trials, trials)
    return found


def best_draft(overlap: float, cost: float) -> tuple[int, float]:
    """The draft length with the largest expected speed-up, and that speed-up; see `Candidate`."""
    best = (0, 1.0)
    for length in range(1, _LONGEST + 1):
        tokens = sum(overlap**i for i in range(length + 1))
        speed_up = tokens / (1.0 + cost * length)
        if speed_up > best[1]:
            best = (length, speed_up)
    return best


def _without(layers: Sequence[int], layer: int) -> list[int]:
    return [each for each in layers if each != layer]


def _laws(model: LanguageModel, text: Sequence[int]) -> list[torch.Tensor]:
    """Laws of the token after each of the text's, ``[_CHUNK, vocab_size]`` at a time."""
    found = []
    slot = model.open()
    try:
        for start in range(0, len(text), _CHUNK):
            chunk = text[start : start + _CHUNK]
            parents = [PREFIX, *range(len(chunk) - 1)]
            (logits,) = model.extend([Extension(slot, chunk, parents)])
            model.commit(slot, range(len(chunk)))
            found.append(torch.softmax(logits.float(), dim=-1))
    finally:
        model.close(slot)
    return found


def _overlap(draft: LanguageModel, text: Sequence[int], laws: Sequence[torch.Tensor]) -> float:
    shared = [torch.minimum(p, q).sum(-1) for p, q in zip(laws, _laws(draft, text), strict=True)]
    return fmean(torch.cat(shared).tolist())
