"""The seam between the engine and what decides how much a round drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from multidraft.draft.base import FREE, Prices
from multidraft.errors import InvalidInput
from multidraft.tree import DraftTree

if TYPE_CHECKING:
    from multidraft.engine.sequence import Sequence as Running


@dataclass(frozen=True)
class Choice:
    """What one sequence may draft in one round.

    Attributes:
        draft_length: the most tokens of a draft; 0 for a plain step.
        prices: for drafters that shape their trees.
        reason: why, in a few words.
    """

    draft_length: int
    prices: Prices = FREE
    reason: str = ""


@dataclass(frozen=True)
class Round:
    """What became of one sequence's round.

    Attributes:
        sequence: as it is after the round.
        choice: what it was allowed.
        tree: what was drafted.
        accepted: draft tokens accepted.
        kept: tokens emitted.
        verify_seconds: spent on verification.
    """

    sequence: Running
    choice: Choice
    tree: DraftTree
    accepted: int
    kept: int
    verify_seconds: float


class Controller(Protocol):
    """Chooses how much to draft.

    A choice may depend on anything but the draws of the round it concerns: that is what keeps the
    output's law.
    """

    def choose(self, running: Sequence[Running]) -> list[Choice]:
        """One choice for each sequence of the coming round."""
        ...

    def learn(self, rounds: Sequence[Round], draft_seconds: float, target_seconds: float) -> None:
        """What the round gave, and the seconds of all its draft calls and of its target call."""
        ...


class Replay:
    """Repeats recorded choices, so that an answer can be had again token by token.

    Args:
        recorded: `Result.choices` of each sequence, in the order the sequences begin.
    """

    def __init__(self, recorded: Sequence[Sequence[Choice]]):
        self._waiting = [iter(choices) for choices in recorded]
        self._begun: WeakKeyDictionary[Running, object] = WeakKeyDictionary()

    def choose(self, running: Sequence[Running]) -> list[Choice]:
        """Raises InvalidInput where more sequences or rounds come than were recorded."""
        chosen = []
        for sequence in running:
            if sequence not in self._begun:
                if not self._waiting:
                    raise InvalidInput("There are more sequences than recorded choices.")
                self._begun[sequence] = self._waiting.pop(0)
            choice = next(self._begun[sequence], None)  # type: ignore[call-overload]
            if choice is None:
                raise InvalidInput("A sequence has more rounds than were recorded for it.")
            chosen.append(choice)
        return chosen

    def learn(self, rounds: Sequence[Round], draft_seconds: float, target_seconds: float) -> None:
        """Nothing: the choices are made."""
