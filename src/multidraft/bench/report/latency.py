"""What a reader waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from multidraft.bench.records import Record

HOW_COUNTED = (
    "A round that emits k tokens g seconds after the one before counts as k tokens of g/k each; "
    "'between rounds' is g itself, the wait a reader sees. Tokens of the first round are in the "
    "time to the first token. Where a peer does not say how many tokens a round emitted, only the "
    "time between rounds is known."
)


@dataclass(frozen=True)
class Latency:
    """Seconds; NaN where unknown.

    Attributes:
        first_p50, first_p95: to the first token.
        token_p50, token_p95: between tokens.
        round_p50, round_p95: between rounds.
    """

    first_p50: float
    first_p95: float
    token_p50: float
    token_p95: float
    round_p50: float
    round_p95: float


def latency(records: Sequence[Record]) -> Latency:
    """Percentiles over all prompts' tokens (rounds) together."""
    first = [record.first_token for record in records]
    rounds = [gap for record in records for gap in record.gaps]
    tokens = [gap for record in records for gap in _token_gaps(record)]
    return Latency(*_percentiles(first), *_percentiles(tokens), *_percentiles(rounds))


def _token_gaps(record: Record) -> list[float]:
    emitted = [tokens for _, _, tokens in record.rounds]
    if not emitted and len(record.gaps) == record.tokens - 1:
        emitted = [1] * record.tokens  # a peer that decodes token by token
    if len(emitted) != len(record.gaps) + 1:
        return []
    return [
        gap / count
        for gap, count in zip(record.gaps, emitted[1:], strict=True)
        for _ in range(count)
    ]


def _percentiles(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    if not known:
        return np.nan, np.nan
    middle, high = np.percentile(known, (50, 95))
    return float(middle), float(high)
