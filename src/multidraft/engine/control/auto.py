"""The controller that measures: drafts where that is faster than not drafting.

Everything is weighed in tokens. At the present speed of s tokens a second, a second more is worth
s tokens; what a round adds beyond the one token it gives anyway must be more than that. Choosing
so round by round maximises tokens per second in the long run (Dinkelbach 1967). Whether to draft at
all is weighed at this text's own speed, though: at that of other texts, a draft that helps less
here than there would seem to be worse than none.

In a batch, the seconds of a call are shared equally among its sequences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from multidraft.draft.base import Drafter, Prices
from multidraft.engine.control.base import Choice, Round
from multidraft.engine.control.costs import Costs
from multidraft.engine.control.exploration import Exploration
from multidraft.engine.control.lengths import best_length
from multidraft.engine.control.record import (
    KEPT_SHARED,
    KEPT_SHARED_IDLE,
    Record,
    Yield,
    lookup_reliance,
    reliances,
    value,
)
from multidraft.engine.control.told import calls_of, first_reach, looked_up, rows_together
from multidraft.engine.control.usual import UsualVerification
from multidraft.engine.sequence import Sequence as Running

#: Plain steps for which the speed of all sequences counts in one, and a usual speed in all, in
#: tokens a plain step: the first drafts would be too long if their time were worth plain steps.
_STEPS, _USUAL = 5.0, 1.7
#: Every so many rounds with the draft a plain step is timed, unless drafting is so much faster; the
#: first time after so many.
_TIMED, _CLEARLY, _FIRST_TIMED = 16, 1.5, 5
#: Kept of what a batch's drafts gave: by a round that drafts, and by one that does not, so that one
#: in two hundred is tried.
_KEPT_TOGETHER, _KEPT_TOGETHER_IDLE = 0.8, 0.997
#: Price of scoring any nodes from which on it is asked whether a tree is worth it as a whole.
_ALL_OR_NOTHING = 0.5
#: Tokens that a model reads in one call, however wide its calls may be.
_CHUNK = 512


@dataclass
class _State:
    """One sequence. ``asked_at``: tokens that the draft model has read."""

    record: Record = field(default_factory=Record)
    asked_at: int = 0
    probing: bool = False


class AutoController:
    """Chooses between a plain step, lookup alone, and drafts of some size.

    Args:
        drafter: whose drafts they are.
        costs: what calls cost; see `costs_of`.
    """

    def __init__(self, drafter: Drafter, costs: Costs):
        self._drafter = drafter
        self._costs = costs
        self._shared = Record(Yield(kept=KEPT_SHARED, kept_idle=KEPT_SHARED_IDLE))
        self._states: WeakKeyDictionary[Running, _State] = WeakKeyDictionary()
        # Of rounds in which a batch drafted, all its sequences as one.
        self._together = Yield(kept=_KEPT_TOGETHER, kept_idle=_KEPT_TOGETHER_IDLE)
        self._exploration = Exploration()
        self._drafted = 0  # rounds of all sequences together in which the draft was asked
        self._timed_at = _FIRST_TIMED - _TIMED  # how many when a plain step was timed
        self._verification = UsualVerification()

    def choose(self, running: Sequence[Running]) -> list[Choice]:
        """See `Controller`."""
        if self._to_be_timed(len(running)):
            return [Choice(0, reason="timing a plain step") for _ in running]
        if self._loses_together(len(running)):
            return [Choice(0, reason="drafts cost the batch more than they add") for _ in running]
        return [self._choice(sequence, len(running)) for sequence in running]

    def _choice(self, sequence: Running, batch: int) -> Choice:
        state = self._states.setdefault(sequence, _State())
        room = min(self._drafter.draft_length, sequence.remaining - 1)
        if room < 1:
            return Choice(0, reason="the last token")
        speed = self._speed(state.record, batch)
        if self._drafter.model is None:
            prices = Prices(
                node=self._node_price(state.record, speed, batch),
                first=self._first_price(state.record, batch),
                lookup=lookup_reliance(state.record, self._shared),
            )
            return Choice(room, prices, "lookup")
        if self._drafter.drafts == "any":
            return self._tree(sequence, state, speed, batch, room)
        return self._chains(sequence, state, speed, batch, room)

    def _speed(self, record: Record, batch: int) -> float:
        """Tokens a second of a sequence's share of the time, as far as known, else as usual; plain
        decoding's at least."""
        plain = self._plain_speed(batch)
        known = _STEPS / plain
        usual = self._shared.speed(_USUAL * plain, known)
        return max(plain, record.speed(usual, known))

    def _own_speed(self, record: Record, batch: int) -> float:
        """The same, where little is known plain decoding's."""
        plain = self._plain_speed(batch)
        return max(plain, record.speed(plain, _STEPS / plain))

    def _plain_speed(self, batch: int) -> float:
        return batch / self._costs.plain(batch)

    def _to_be_timed(self, batch: int) -> bool:
        """Whether a plain step is due, which tells if drafting is faster at all."""
        due = self._drafted - self._timed_at >= _TIMED
        if not due or self._shared.speed() > _CLEARLY * self._plain_speed(batch):
            return False
        self._timed_at = self._drafted
        return True

    def _on_trial(self) -> bool:
        """Whether the draft is asked whatever it has given, as it is new."""
        return self._exploration.on_trial(self._shared.model_rounds)

    def _loses_together(self, batch: int) -> bool:
        """Whether the last drafts of a batch, all its sequences together, were not worth their
        time: each pays for its share of a call, but a call that one asks for holds up all. What
        is known of them fades, so they are tried again now and then."""
        known = self._together
        if batch == 1 or self._drafter.model is None or known.rounds <= 1.0 or self._on_trial():
            return False
        return known.tokens < known.seconds * self._plain_speed(batch)

    def _node_price(self, record: Record, speed: float, batch: int) -> float:
        """Of one more position in a tree of the usual size."""
        size = batch * record.positions
        more = 1.5 * size
        return speed * (self._costs.target(more) - self._costs.target(size)) / (more - size)

    def _first_price(self, record: Record, batch: int) -> float:
        """Of scoring a tree of the usual size besides its nodes, at plain decoding's speed: what
        is gained on a plain step counts, not what better rounds before it have given."""
        speed, size = self._plain_speed(batch), record.positions
        whole = speed * (self._costs.target(batch * size) - self._costs.plain(batch)) / batch
        return max(0.0, whole - self._node_price(record, speed, batch) * (size - 1.0))

    # ------------------------------------------------------------ trees

    def _tree(
        self, sequence: Running, state: _State, speed: float, batch: int, room: int
    ) -> Choice:
        record = state.record
        call = speed * self._costs.draft(batch * record.rows) / batch
        own = self._own_speed(record, batch)
        first = self._first_price(record, batch)
        sure, usual = value(record, self._shared, own, first > _ALL_OR_NOTHING)
        gain = usual - own * self._catching_up(state, sequence, 0) / self._horizon(sequence)
        prices = Prices(
            node=self._node_price(record, speed, batch),
            first=first,
            calls=(call,),
            draft=reliances(record, self._shared),
            lookup=lookup_reliance(record, self._shared),
            sure=sure,
            model_gain=gain,
        )
        state.probing = False
        if self._on_trial():
            return Choice(room, _anyway(prices), "trying the draft")
        if gain > 0.0:
            return Choice(room, prices, f"the draft adds {gain:+.1f} tokens a round")
        usual = value(record, self._shared, own, False)[1]
        if self._may_explore(state, sequence, -usual / own):
            state.probing = True
            # At its word: what it was rightly not believed before may hold of another text.
            return Choice(room, replace(_anyway(prices), draft=()), "trying the draft again")
        reason = f"the draft would cost {-gain:.1f} tokens a round"
        return Choice(room, replace(prices, model_gain=-math.inf), reason)

    def _catching_up(self, state: _State, sequence: Running, emitted: int) -> float:
        """Seconds the draft model needs for the tokens it had not seen ``emitted`` tokens ago, the
        last one excepted, which every round reads."""
        unseen, one = _unseen(state, sequence, emitted), self._costs.draft(1)
        return max(self._costs.draft(unseen), math.ceil(unseen / _CHUNK) * one) - one

    def _horizon(self, sequence: Running) -> float:
        """Rounds over which catching up must pay: an answer is taken to become as long as those
        before it, and later to go on for as long again."""
        emitted = len(sequence.output)
        left = max(self._shared.answer - emitted, emitted)
        return max(1.0, min(left, sequence.remaining) / self._shared.drafting.tokens_a_round)

    def _may_explore(self, state: _State, sequence: Running, loss: float) -> bool:
        """Whether a probe that is expected to lose so many seconds, and to catch up, is allowed."""
        return self._exploration.allows(max(0.0, loss) + self._catching_up(state, sequence, 0))

    # ------------------------------------------------------------ chains

    def _chains(
        self, sequence: Running, state: _State, speed: float, batch: int, room: int
    ) -> Choice:
        own = self._own_speed(state.record, batch)
        longest, gain, price = self._best_chains(sequence, state.record, own, batch, room)
        length = self._best_chains(sequence, state.record, speed, batch, room)[0] or longest
        state.probing = False
        if length:
            gain -= own * self._catching_up(state, sequence, 0) / self._horizon(sequence)
        if self._on_trial():
            return Choice(max(length, min(room, 2)), reason="trying the draft")
        if length and gain > 0.0:
            return Choice(length, reason=f"{length} tokens add {gain:+.1f} a round")
        if self._may_explore(state, sequence, price / own):
            state.probing = True
            return Choice(1, reason="trying the draft again")
        return Choice(0, reason="the draft would cost more than it adds")

    def _best_chains(
        self, sequence: Running, record: Record, speed: float, batch: int, room: int
    ) -> tuple[int, float, float]:
        """Their best length at a speed, what it adds, and the price of a token on each of them."""
        count = getattr(self._drafter, "num_drafts", 1)
        call = speed * self._costs.draft(batch * count) / batch

        def price(length: int) -> float:
            longer, before = (
                self._costs.target(batch * (1 + count * n)) for n in (length, length - 1)
            )
            return call + speed * (longer - before) / batch

        carried = call if sequence.carry_left else 0.0
        return *best_length(record, self._shared, room, price, carried), price(1)

    # ------------------------------------------------------------ afterwards

    def learn(self, rounds: Sequence[Round], draft_seconds: float, target_seconds: float) -> None:
        """See `Controller`."""
        batch = len(rounds)
        positions = sum(len(each.tree) for each in rounds)
        rows = rows_together([self._rows_of(each) for each in rounds])
        first = any(len(each.sequence.output) == each.kept for each in rounds)
        # The draft's calls of a first round read the whole prompt.
        self._costs.observe(batch, positions, target_seconds, [] if first else rows, draft_seconds)
        self._drafted += bool(rows)
        if rows and positions == batch:
            self._timed_at = self._drafted  # nothing was scored, so that was one
        plain = self._costs.plain(batch) / batch
        scoring = (
            max(0.0, self._costs.target(positions) / batch - plain) if positions > batch else 0.0
        )
        total = max(1, positions - batch)
        whole = batch * scoring
        whole += sum(map(self._costs.draft, rows_together([r.tree.draft_rows for r in rounds])))
        for each in rounds:
            state = self._states.setdefault(each.sequence, _State())
            own_rows = each.tree.draft_rows
            drafting = sum(self._costs.draft(batch * n) for n in own_rows) / batch
            share = batch * (len(each.tree) - 1) / total
            taken, most = each.verify_seconds, batch * plain
            verifying = self._verification.seconds(len(each.tree), taken, most)
            whole += verifying
            extra = drafting + scoring * share + verifying
            # The draft's first call is made before it is known how sure it is.
            asking = self._costs.draft(batch * own_rows[0]) / batch if own_rows else 0.0
            self._learn_one(state, each, plain, extra, asking, own_rows)
        drafted = positions > batch or (bool(rows) and self._drafter.drafts == "any")
        self._together.fade(drafted)
        if drafted and batch > 1:
            self._together.add(sum(each.kept - 1 for each in rounds), whole)

    def _rows_of(self, each: Round) -> list[int]:
        """Nodes of each draft call, the tokens that the first one caught up on included."""
        rows = each.tree.draft_rows
        if rows:
            state = self._states.setdefault(each.sequence, _State())
            rows[0] += _unseen(state, each.sequence, each.kept) - 1
        return rows

    def _learn_one(
        self,
        state: _State,
        each: Round,
        plain: float,
        extra: float,
        asking: float,
        rows: list[int],
    ) -> None:
        asked = bool(rows)
        speed = max(1.0 / plain, state.record.speed())
        ended = each.sequence.finish_reason is not None  # it may have been cut
        sure = first_reach(each.tree)
        for record in (state.record, self._shared):
            record.drafting.fade(asked)
            record.add_round(each.kept, plain + extra)
            if not asked:
                record.add_lookup(looked_up(each), each.accepted)
            if asked:
                record.model_rounds += 1
                record.add_shape(len(each.tree), rows)
                if not ended:
                    record.drafting.add(each.kept - 1, extra)
                    for call in calls_of(each.tree, each.accepted):
                        record.drafting.add_call(*call)
                    # Others were scored for what lookup had found.
                    if len(each.tree) > 1 and sure >= each.choice.prices.sure:
                        record.drafting.add_start(sure, each.kept - 1, extra - asking)
        if ended:
            self._shared.add_answer(len(each.sequence.output))
        probe = 0.0
        if asked:
            caught_up = self._catching_up(state, each.sequence, each.kept)
            added = each.kept - 1
            # Not what reading the prompt took: it says nothing of the draft.
            judged = extra + (caught_up if state.asked_at else 0.0)
            self._exploration.lost(speed * judged - added)
            if state.probing:
                probe = extra + caught_up - added / speed
            read = len(each.sequence.prompt) + len(each.sequence.output) - each.kept
            state.asked_at = read + min(each.accepted, len(rows) - 1)  # those it has scored
        self._exploration.saved(plain + extra, plain, asked, probe)


def _unseen(state: _State, sequence: Running, emitted: int) -> int:
    """Tokens that the draft model had not seen before the last ``emitted`` came; at least one."""
    return max(1, len(sequence.prompt) + len(sequence.output) - emitted - state.asked_at)


def _anyway(prices: Prices) -> Prices:
    """To learn what drafts are worth, asked and scored however sure they are."""
    return replace(prices, model_gain=math.inf, sure=0.0)
