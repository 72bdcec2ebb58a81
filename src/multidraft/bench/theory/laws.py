"""A model's laws along a given text."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import torch

from multidraft.draft.slots import resized
from multidraft.models.base import PREFIX, Extension, LanguageModel
from multidraft.sampling import SamplingParams, Warper

_CHUNK = 64  # tokens a call: each gives a row of logits as wide as the vocabulary


def laws_along(
    model: LanguageModel,
    tokens: Sequence[int],
    lengths: Sequence[int],
    temperature: float,
    vocab_size: int,
) -> Generator[torch.Tensor]:
    """The law of the token after each of some beginnings of a text.

    Args:
        lengths: of the beginnings, from 1 on, ascending.
        vocab_size: width of the laws, the target's.

    Yields:
        Laws [vocab_size], float64, on the CPU.

    Raises:
        InvalidLogits: the model's logits define no law.
    """
    warper = Warper(SamplingParams(temperature=temperature), (), vocab_size)
    # An id in the target's padding may lie outside the draft's embedding; see `DraftSlots`.
    known = [min(token, model.vocab_size - 1) for token in tokens]
    slot = model.open()
    try:
        model.prefill(slot, known[: lengths[0] - 1])
        for start in range(lengths[0] - 1, lengths[-1], _CHUNK):
            part = known[start : min(start + _CHUNK, lengths[-1])]
            wanted = [n - 1 - start for n in lengths if start < n <= start + len(part)]
            chain = Extension(slot, part, [PREFIX, *range(len(part) - 1)], wanted)
            (rows,) = model.extend([chain])
            model.commit(slot, range(len(part)))
            for row in rows:
                yield warper.law(resized(row.cpu().double(), vocab_size))
    finally:
        model.close(slot)
