"""What rounds have given so far: fading sums, of one sequence and of all together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from multidraft.draft.base import SURENESSES, least_sure, sureness

#: Kept of what is known of drafting: by a round that drafts, and by one that does not. Of all
#: sequences together longer, as it says what to expect of the next one.
_KEPT, _KEPT_IDLE = 0.9, 0.98
KEPT_SHARED, KEPT_SHARED_IDLE = 0.98, 0.998
#: Kept of the speed by each round.
_KEPT_SPEED = 0.95
#: Tokens that a round with the draft adds, before anything is known.
_ADDED = 1.5
#: What a new answer counts for in their usual length.
_NEW_ANSWER = 0.2
#: Rounds that what is known of all sequences counts for in one, and calls of one sureness.
_SHARED, _SHARED_CALLS = 2.0, 8.0
#: Tokens that recent rounds must have added in all for drafting to go on.
_DOUBT = 0.25
#: Rounds of all sequences that count where it is asked how sure a draft must be, and tokens that
#: unsure ones must have lost.
_SHARED_STARTS, _LOST = 10.0, 1.0
#: Tokens for which lookup's own estimates are believed, and the draft's.
_BELIEVED, _BELIEVED_DRAFT = 2.0, 2.0
#: What a draft is taken to be right by where it is less sure, of what it is where it is surer.
_LESS_SURE = 0.9


@dataclass
class Yield:
    """What rounds with the draft model gave over plain ones.

    Attributes:
        rounds: how many, fading.
        tokens: that they added.
        seconds: that they took longer.
        expected, accepted: by `sureness`, how many tokens that calls give the draft expected to be
            accepted and how many were; of independent drafts, which expect nothing, just one: how
            often the token before was accepted, and how often the next one was too.
        starts: by `sureness` of the root's children, tokens that drafts added, and their seconds
            after the first call of the draft, whose law says how sure it is.
        kept, kept_idle: of all this, by a round that drafts and by one that does not.
    """

    rounds: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0
    expected: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    starts: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)] * SURENESSES)
    kept: float = _KEPT
    kept_idle: float = _KEPT_IDLE

    @property
    def tokens_a_round(self) -> float:
        """That it emits in all."""
        return 1.0 + (self.tokens / self.rounds if self.rounds else _ADDED)

    def gain(self, kind: int, speed: float) -> float:
        """Tokens that were added, less those of plain decoding at a speed in the time it took, had
        nothing been scored where the draft was less sure than of this class."""
        return self.tokens - speed * self.seconds - sum(self.started(speed)[kind + 1 :])

    def started(self, speed: float) -> list[float]:
        """The same of what came after the first call, by `sureness`."""
        return [tokens - speed * seconds for tokens, seconds in self.starts]

    def fade(self, drafted: bool) -> None:
        kept = self.kept if drafted else self.kept_idle
        self.rounds, self.tokens, self.seconds = (
            kept * value for value in (self.rounds, self.tokens, self.seconds)
        )
        self.starts = [(kept * tokens, kept * seconds) for tokens, seconds in self.starts]
        if drafted:
            self.expected = [kept * value for value in self.expected]
            self.accepted = [kept * value for value in self.accepted]

    def add(self, tokens: float, seconds: float) -> None:
        self.rounds += 1.0
        self.tokens += tokens
        self.seconds += seconds

    def add_start(self, reach: float, tokens: float, seconds: float) -> None:
        """A round whose first nodes the draft thought accepted with probability ``reach``."""
        before = self.starts[sureness(reach)]
        self.starts[sureness(reach)] = (before[0] + tokens, before[1] + seconds)

    def add_call(self, kind: int, expected: float, accepted: bool) -> None:
        """Of one draft call, whether a token that it gave was accepted. ``kind``: its index."""
        missing = [0.0] * (kind + 1 - len(self.expected))
        self.expected += missing
        self.accepted += missing
        self.expected[kind] += expected
        self.accepted[kind] += float(accepted)


@dataclass
class Record:
    """One sequence, or all of them.

    Attributes:
        drafting: see `Yield`.
        tokens, seconds: of all recent rounds, fading: the present speed.
        looked_up, found: tokens that lookup alone expected to be accepted, and how many were.
        model_rounds: rounds with the draft model, ever.
        answer: usual length of an answer, in tokens.
        positions, rows: usual size of a tree with its root, and of a draft call.
    """

    drafting: Yield = field(default_factory=Yield)
    tokens: float = 0.0
    seconds: float = 0.0
    looked_up: float = 0.0
    found: float = 0.0
    model_rounds: int = 0
    positions: float = 8.0
    rows: float = 2.0
    answer: float = 100.0

    def speed(self, usual: float = 0.0, known: float = 0.0) -> float:
        """Tokens per second, a ``usual`` speed counting for ``known`` seconds; where nothing is
        known of either, 0."""
        seconds = self.seconds + known
        return (self.tokens + known * usual) / seconds if seconds > 0 else 0.0

    def add_round(self, tokens: int, seconds: float) -> None:
        self.tokens = _KEPT_SPEED * self.tokens + tokens
        self.seconds = _KEPT_SPEED * self.seconds + seconds

    def add_lookup(self, expected: float, accepted: int) -> None:
        """A round without the draft model; nothing expected where nothing was looked up."""
        kept = _KEPT if expected else _KEPT_IDLE
        self.looked_up = kept * self.looked_up + expected
        self.found = kept * self.found + accepted

    def add_answer(self, tokens: int) -> None:
        self.answer += _NEW_ANSWER * (tokens - self.answer)

    def add_shape(self, positions: int, rows: list[int]) -> None:
        if positions > 1:
            self.positions += 0.1 * (positions - self.positions)
        self.rows += 0.1 * (sum(rows) / len(rows) - self.rows)


def value(own: Record, shared: Record, speed: float, all_or_nothing: bool) -> tuple[float, float]:
    """What asking the draft model is worth at a speed.

    Args:
        all_or_nothing: whether nothing may be scored though the draft model was asked.

    Returns:
        How sure the draft must be of its first tokens for them to be scored: classes of sureness
        that have lost tokens together are left out, the less sure ones first. And the tokens that
        a round with the draft then adds on average, less what plain decoding would emit in the time
        it takes; a few rounds of all sequences count as this one's own. Once it has some, a quarter
        of a token is held against them: a lucky one would else be followed by ones that do not pay.
    """
    kind = _least_sure_kind(own, shared, speed) if all_or_nothing else SURENESSES - 1
    sure = least_sure(kind) if kind >= 0 else math.inf
    mine, others = own.drafting, shared.drafting
    weight = min(_SHARED, others.rounds)
    scale = weight / others.rounds if others.rounds else 0.0
    rounds = mine.rounds + weight
    if rounds == 0:
        return sure, 0.0
    gain = sum(share * each.gain(kind, speed) for share, each in ((1.0, mine), (scale, others)))
    return sure, (gain - _DOUBT * min(1.0, mine.rounds)) / rounds


def _least_sure_kind(own: Record, shared: Record, speed: float) -> int:
    """The last class of sureness that is worth its time; -1 where none is."""
    mine, others = own.drafting, shared.drafting
    scale = min(1.0, _SHARED_STARTS / others.rounds) if others.rounds else 0.0
    both = zip(mine.started(speed), others.started(speed), strict=True)
    gains = [ours + scale * theirs for ours, theirs in both]
    worst, kind, lost = -_LOST, SURENESSES - 1, 0.0
    for each in reversed(range(SURENESSES)):
        lost += gains[each]
        if lost < worst:
            worst, kind = lost, each - 1
    return kind


def reliances(own: Record, shared: Record) -> tuple[float, ...]:
    """Accepted over expected tokens by `sureness`; where little is known, a little less than where
    the draft is surer.

    Not by depth: how often a draft of whatever depth is right is said well by how sure it is once
    one knows what that means.
    """
    found: list[float] = []
    for kind in range(SURENESSES):
        prior = _LESS_SURE * (found[-1] if found else 1.0)
        found.append(accepted_share(own, shared, kind, prior, _BELIEVED_DRAFT, _SHARED_CALLS))
    return tuple(found)


def accepted_share(
    own: Record, shared: Record, kind: int, prior: float, believed: float, most: float
) -> float:
    """Accepted over expected tokens of one kind of call (see `Yield`): ``prior`` for ``believed``
    tokens, what is known of all sequences for ``most`` at most, and what is of this one."""
    expected, accepted = believed, believed * prior
    for record, limit in ((shared, most), (own, float("inf"))):
        known = record.drafting
        if kind < len(known.expected) and known.expected[kind] > 0:
            scale = min(1.0, limit / known.expected[kind])
            expected += scale * known.expected[kind]
            accepted += scale * known.accepted[kind]
    return accepted / expected


def lookup_reliance(own: Record, shared: Record) -> float:
    """Accepted tokens for each that lookup expected; at most 1, as what it leaves out is not
    known."""
    scale = min(1.0, _SHARED / shared.looked_up) if shared.looked_up else 0.0
    expected = _BELIEVED + own.looked_up + scale * shared.looked_up
    accepted = _BELIEVED + own.found + scale * shared.found
    return min(1.0, accepted / expected)
