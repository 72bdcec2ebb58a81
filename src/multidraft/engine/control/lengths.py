"""The best length of independent drafts, from how often drafts were accepted up to each depth."""

from __future__ import annotations

from multidraft.engine.control.record import Record

#: Before anything is known: the chance that a draft's first token is accepted.
_FIRST = 0.7
#: Rounds that what is known of all sequences counts for in one.
_SHARED = 4.0


def acceptance(own: Record, shared: Record, depth: int) -> float:
    """Probability that the token at ``depth`` (from 1) is accepted, given that those before it
    were; of a depth never tried, that of the deepest one that was."""
    ratio = _FIRST
    for i in range(depth):
        tried, accepted = 1.0, ratio  # one round's worth of what the depth above says
        for record, most in ((shared, _SHARED), (own, float("inf"))):
            found = record.drafting
            if i < len(found.accepted) and found.expected[i] > 0:
                scale = min(1.0, most / found.expected[i])
                tried += scale * found.expected[i]
                accepted += scale * found.accepted[i]
        ratio = accepted / tried
    return ratio


def best_length(
    own: Record, shared: Record, most: int, price: float, carried: float
) -> tuple[int, float]:
    """The length whose accepted tokens, less their price, are most.

    Args:
        most: the longest draft that fits.
        price: of one more token on every draft, in tokens.
        carried: what a round costs even without a draft, as a carry needs the draft's law.

    Returns:
        The length, 0 for none, and what it adds over none.
    """
    best, best_gain = 0, 0.0
    reached, gain = 1.0, carried
    for length in range(1, most + 1):
        reached *= acceptance(own, shared, length)
        gain += reached - price
        if gain > best_gain:
            best, best_gain = length, gain
    return best, best_gain
