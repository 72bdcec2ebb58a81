"""How far a match can be trusted, learnt from the text as it goes on.

Counts alone do not tell a passage that is being copied from a chance repetition: in both the
context was seen once. How often contexts of that length have been right in this text does, as in
the match model of PAQ (Mahoney 2005).
"""

from __future__ import annotations

#: Weight of the counts' own estimate, in observations.
_PRIOR = 2.0
#: Observations remembered: text changes.
_MEMORY = 24.0


class Confidence:
    """Probability that a context is followed by a token it was followed by before, by its length;
    lengths are taken together between powers of 2."""

    def __init__(self) -> None:
        self._right: dict[int, float] = {}
        self._seen: dict[int, float] = {}

    def learn(self, length: int, right: bool) -> None:
        """A context of ``length`` tokens was followed by such a token, or not."""
        key = length.bit_length()
        kept = 1.0 - 1.0 / _MEMORY
        self._right[key] = kept * self._right.get(key, 0.0) + right
        self._seen[key] = kept * self._seen.get(key, 0.0) + 1.0

    def of(self, length: int, times: int, kinds: int) -> float:
        """For a context that was followed ``times`` times, by ``kinds`` different tokens. Before
        anything is learnt this is times/(times + kinds): escape method C of Moffat 1990."""
        key = length.bit_length()
        prior = _PRIOR * times / (times + kinds)
        return (self._right.get(key, 0.0) + prior) / (self._seen.get(key, 0.0) + _PRIOR)
