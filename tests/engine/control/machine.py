"""A machine whose calls cost what a test says, and the time an answer takes on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from multidraft.draft.base import Drafter
from multidraft.engine.control.auto import AutoController
from multidraft.engine.control.costs import Costs
from multidraft.engine.control.curve import Curve

TARGET = Curve.of({1: 1.0, 8: 1.1, 16: 1.3, 32: 2.0})
DRAFT = Curve.of({1: 0.3, 4: 0.3, 16: 0.4})


class Machine(AutoController):
    """The automatic controller with a clock of its own.

    Args:
        drafter: see `AutoController`.
        target, draft: what calls cost.
        believed: the target's costs as measured at the start, where they are not the real ones.
        pace: what all calls cost more from then on, by the tokens of all sequences.
        verifying: seconds of a sequence's verification, by the number of its round.

    Attributes:
        seconds: that all rounds have taken.
        log: tokens so far and the time, after each round.
    """

    def __init__(
        self,
        drafter: Drafter,
        target: Curve = TARGET,
        draft: Curve = DRAFT,
        believed: Curve | None = None,
        pace: Callable[[int], float] = lambda tokens: 1.0,
        verifying: Callable[[int], float] = lambda number: 0.0,
    ):
        costs = Costs(believed or target, None if drafter.model is None else draft)
        super().__init__(drafter, costs)
        self._target_curve, self._draft_curve = target, draft
        self.seconds = 0.0
        self._seen: dict[object, int] = {}
        self.log: list[tuple[int, float]] = []
        self._pace, self._verifying_of = pace, verifying

    def learn(self, rounds, draft_seconds, target_seconds):
        rows: list[int] = []
        for each in rounds:
            calls = each.tree.draft_rows
            if calls:  # and what the draft has not seen yet
                before = len(each.sequence.prompt) + len(each.sequence.output) - each.kept
                calls[0] += before - self._seen.get(each.sequence, 0) - 1
                self._seen[each.sequence] = before + min(each.accepted, len(calls) - 1)
            for depth, count in enumerate(calls):
                if depth == len(rows):
                    rows.append(0)
                rows[depth] += count
        tokens = sum(len(r.sequence.output) for r in rounds)
        pace = self._pace(tokens)
        draft_seconds = pace * sum(map(self._draft_curve, rows))
        target_seconds = pace * self._target_curve(sum(len(each.tree) for each in rounds))
        verifying = self._verifying_of(len(self.log))
        self.seconds += draft_seconds + target_seconds + len(rounds) * verifying
        self.log.append((tokens, self.seconds))
        timed = [replace(each, verify_seconds=verifying) for each in rounds]
        super().learn(timed, draft_seconds, target_seconds)
