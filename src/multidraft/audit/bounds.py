"""What the expected number of accepted drafts of one round is measured against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multidraft.audit.exact import Laws, Tokens

Blocks = list[tuple[float, float]]


def per_level_bound(target: Laws, draft: Laws, num_drafts: int, draft_length: int) -> float:
    """No verifier of K i.i.d. drafts accepts more tokens a round than this, in expectation.

    The sum over t of min over sets T of length-t blocks of Q(T) + 1 - P(T)^K: the first t tokens
    stay only if the output begins with a block of T, or if some draft lies outside T. The minimum
    is at a threshold of the order of Q/P.
    """
    total = 0.0
    for length in range(1, draft_length + 1):
        blocks = sorted(_blocks(target, draft, length), key=_ratio)
        q, p = np.cumsum([(0.0, 0.0), *blocks], axis=0).T
        total += float((q + 1 - p**num_drafts).min())
    return total


def paper_closed_form(target: Laws, draft: Laws, num_drafts: int, draft_length: int) -> float:
    """The sum over t and x^t of Q [1 - (1 - min(1, P/Q))^K] (Lin et al. 2026).

    Published as what SpecTr-GBV accepts; it is neither that nor an upper bound.
    """
    return sum(
        q * (1 - (1 - min(1.0, p / q)) ** num_drafts)
        for length in range(1, draft_length + 1)
        for q, p in _blocks(target, draft, length)
        if q > 0
    )


def _ratio(block: tuple[float, float]) -> float:
    q, p = block
    return q / p if p > 0 else np.inf


def _blocks(target: Laws, draft: Laws, length: int) -> Blocks:
    """(Q, P) of every block of ``length`` tokens."""
    blocks: dict[Tokens, tuple[float, float]] = {(): (1.0, 1.0)}
    for _ in range(length):
        blocks = {
            (*block, token): (q * _p(target, block, token), p * _p(draft, block, token))
            for block, (q, p) in blocks.items()
            for token in range(len(target[()]))
        }
    return list(blocks.values())


def _p(laws: Laws, block: Tokens, token: int) -> float:
    law: Sequence[float] = laws[block]
    return float(law[token])
