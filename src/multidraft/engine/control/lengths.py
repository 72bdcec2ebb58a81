"""The best length of independent drafts, from how often their tokens were accepted."""

from __future__ import annotations

from collections.abc import Callable

from multidraft.engine.control.record import Record, accepted_share

#: Before anything is known: the chance that a draft's next token is accepted.
_USUAL = 0.7
#: Tokens for which that is believed, and those that all sequences' count for in one.
_BELIEVED, _SHARED = 1.0, 16.0


def acceptance(own: Record, shared: Record) -> float:
    """Probability that a draft's next token is accepted, given that those before it were: the same
    at every depth, as telling depths apart costs more in certainty than it brings."""
    return accepted_share(own, shared, 0, _USUAL, _BELIEVED, _SHARED)


def best_length(
    own: Record, shared: Record, most: int, price: Callable[[int], float], carried: float
) -> tuple[int, float]:
    """The length whose accepted tokens, less their price, are most.

    Args:
        most: the longest draft that fits.
        price: in tokens, of the token that makes every draft so long.
        carried: what a round costs even without a draft, as a carry needs the draft's law.

    Returns:
        The length, 0 for none, and what it adds over none.
    """
    best, best_gain = 0, 0.0
    reached, gain, rate = 1.0, carried, acceptance(own, shared)
    for length in range(1, most + 1):
        reached *= rate
        gain += reached - price(length)
        if gain > best_gain:
            best, best_gain = length, gain
    return best, best_gain
