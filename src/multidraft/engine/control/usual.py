"""What verification usually takes: a pause of the machine is no news of the next round."""

from __future__ import annotations

#: Rounds that say what is usual, and how much more one may be taken to have needed.
_ROUNDS, _UNUSUAL = 20, 2.0


class UsualVerification:
    """Seconds of verifying a drafted round, and of a node in it."""

    def __init__(self) -> None:
        self._rounds, self._seconds, self._of_a_node = 0, 0.0, 0.0

    def seconds(self, nodes: int, taken: float, most: float) -> float:
        """What one round's verification may be taken to have needed.

        Args:
            nodes: of its tree; 1 where nothing was drafted.
            taken: what it took.
            most: where nothing is known yet.
        """
        if nodes == 1:
            return min(taken, most)
        if self._seconds > 0.0:  # a part of it is the same for trees of all sizes
            most = _UNUSUAL * max(self._seconds, self._of_a_node * nodes)
        seconds = min(taken, most)
        self._rounds = min(_ROUNDS, self._rounds + 1)
        self._seconds += (seconds - self._seconds) / self._rounds
        self._of_a_node += (seconds / nodes - self._of_a_node) / self._rounds
        return seconds
