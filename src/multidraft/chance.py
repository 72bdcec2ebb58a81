"""All randomness of drafters and verifiers comes through `Chance`: one coin and one draw.

The exact enumerator (`multidraft.audit.exact`) replaces it by a source that walks every branch,
so what is proved there is proved of the code that runs.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

import numpy as np
import torch


class Chance(Protocol):
    """A source of random decisions, private to one sequence."""

    def accept(self, probability: float) -> bool:
        """True with the given probability; values outside [0, 1] count as 0 and 1."""
        ...

    def draw(self, law: torch.Tensor) -> int:
        """A token drawn from ``law``: shape [V], non-negative, not all zero, any positive sum."""
        ...


_BLOCK = 512


class RandomChance:
    """The random stream of one sequence, keyed by integers such as (seed, prompt, sample).

    ``key=None`` takes a stream from the operating system's entropy.
    """

    def __init__(self, key: tuple[int, ...] | None = None):
        # Hashed: SeedSequence itself cuts large integers into words, so that different keys meet.
        entropy = None if key is None else int.from_bytes(sha256(repr(key).encode()).digest())
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))

    def accept(self, probability: float) -> bool:
        # Strictly below: u can be 0, and a token of probability 0 must never pass.
        return self._generator.random() < probability

    def draw(self, law: torch.Tensor) -> int:
        # Sums in float64: a float32 running sum over 10^5 tokens is off by more than small tokens
        # weigh. Blocks first, then within one: a running sum is slow, block sums are not.
        if law.numel() <= _BLOCK:
            sums = torch.cumsum(law, 0, dtype=torch.float64)
            return _first_above(sums, self._generator.random() * sums[-1:])
        whole = law.numel() // _BLOCK * _BLOCK
        blocks = law[:whole].view(-1, _BLOCK).sum(1, dtype=torch.float64)
        tail = law[whole:].sum(0, keepdim=True, dtype=torch.float64)
        cumulative = torch.cumsum(torch.cat([blocks, tail]), 0)
        threshold = self._generator.random() * cumulative[-1:]
        block = _first_above(cumulative, threshold)
        before = cumulative[block - 1] if block else 0.0
        part = law[block * _BLOCK : (block + 1) * _BLOCK]
        within = torch.cumsum(part, 0, dtype=torch.float64)
        return block * _BLOCK + _first_above(within, threshold - before)


def _first_above(cumulative: torch.Tensor, threshold: torch.Tensor) -> int:
    """The first index whose running sum exceeds the threshold: never one that adds nothing."""
    index = int(torch.searchsorted(cumulative, threshold, right=True))
    if index == cumulative.numel():  # rounded up to the total: the last one that adds something
        index = int(torch.searchsorted(cumulative, cumulative[-1:]))
    return index
