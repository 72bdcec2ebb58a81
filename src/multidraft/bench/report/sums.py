"""What one generation adds to each figure: the sums that ratios are taken of."""

from __future__ import annotations

import math
from collections.abc import Mapping

from multidraft.bench.records import Record
from multidraft.engine.stats import PHASES

#: Names of the sums. ``full_*`` and ``fractions`` (accepted tokens / L) are over full rounds.
SUMS = ("full_tokens", "full_rounds", "fractions", "tokens", "seconds", *PHASES)


def full_rounds(record: Record, max_tokens: int) -> list[int]:
    """Which rounds are *full*: the answer had room for L draft tokens and one more, and all the
    round emitted was kept.

    With drafts of fixed length these are the rounds whose depth is L. A drafter that stops where it
    is unsure is not asked for the depth it reached: to count its deep rounds alone would be to
    count its lucky ones.
    """
    found, emitted = [], 0
    for number, (accepted, _depth, tokens) in enumerate(record.rounds):
        if max_tokens - emitted > record.cell.draft_length and tokens == accepted + 1:
            found.append(number)
        emitted += tokens
    return found


def sums_of(record: Record, max_tokens: int) -> Mapping[str, float]:
    """The sums of one record, NaN where the method does not tell.

    Args:
        record: of a generation that succeeded.
        max_tokens: of the request.
    """
    length = record.cell.draft_length
    full = [record.rounds[i] for i in full_rounds(record, max_tokens)]
    phases = {phase: record.seconds.get(phase, 0.0) for phase in PHASES}
    seconds = sum(phases.values())
    if seconds == phases["other"]:  # a peer, which does not tell its phases apart
        phases = dict.fromkeys(PHASES, math.nan)
    return {
        "full_tokens": sum(tokens for _, _, tokens in full),
        "full_rounds": len(full),
        "fractions": sum(accepted for accepted, _, _ in full) / length if length else math.nan,
        "tokens": record.tokens,
        "seconds": seconds,
        **phases,
    }
