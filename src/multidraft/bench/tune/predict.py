"""The speed of shorter drafts, from recorded rounds with long ones.

A long draft says what a shorter one would have given. Of a draft of 8 tokens of which 5 were
accepted, drafts of 2 would have had 2 accepted, their bonus token, 2 more, their bonus token, and
none of the last: 6 tokens in 2 rounds. So a round of e tokens becomes ⌈e / (L + 1)⌉ rounds, and one
whose draft was accepted to its end e / (L + 1), as nothing ended it. Calls get the nodes of the
first L depths; their seconds are the cost curves', scaled so that the recorded length gets the
seconds it took.

At the recorded length the prediction is therefore the recording itself. At others it neglects that
each of the shorter rounds has all K drafts anew, where the long one has few left at depth, and that
verifiers of blocks accept a little more of a long draft. On the Qwen2.5-Coder pair (1.5B and 0.5B,
8 prompts of five data sets) the block efficiency at L = 4 predicted from L = 8 was off by +2% for
one draft, -6% for three, +3% for hybrid trees. The prompts recorded matter more: with two of them,
lookup above all may do twice as well as on the next. Good enough to choose what to measure, not to
recommend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from multidraft.bench.records import Record
from multidraft.bench.report.group import Row
from multidraft.bench.report.sums import full_rounds
from multidraft.bench.tune.settings import LENGTHS, PLAIN, at_length
from multidraft.engine.control.costs import Costs


@dataclass(frozen=True)
class Prediction:
    """Of one setting.

    Attributes:
        tokens_per_second: prompts included, as measured speeds are.
        block_efficiency: tokens a round, over rounds with room for the recorded length.
    """

    tokens_per_second: float
    block_efficiency: float


def predict(
    recorded: Mapping[Row, Sequence[Record]], costs: Costs, max_tokens: int
) -> dict[Row, Prediction]:
    """All settings that follow from recorded ones: plain decoding, and each kind at each length.

    Args:
        recorded: the records of each, of which none failed.
        costs: of the models' calls.
        max_tokens: of the requests.
    """
    found = {}
    for row, records in recorded.items():
        lengths = [0] if row == PLAIN else [n for n in LENGTHS if n <= row.draft_length]
        kind = _Kind(row, records, costs, max_tokens)
        for length in lengths:
            found[at_length(row, length)] = kind.at(length)
    return found


class _Kind:
    """One kind of drafting, as it was recorded."""

    def __init__(self, row: Row, records: Sequence[Record], costs: Costs, max_tokens: int):
        self._records, self._costs, self._max_tokens = records, costs, max_tokens
        self._independent = row == PLAIN or "+" not in row.method
        expected = sum(self._call(r, i, r.cell.draft_length) for r in records for i in _rounds(r))
        taken = sum(_decoding(r) - _overhead(r) for r in records)
        self._pace = max(0.0, taken) / expected

    def at(self, length: int) -> Prediction:
        """With drafts of ``length`` tokens."""
        seconds = tokens = full_tokens = full = 0.0
        for r in self._records:
            counts = [_count(each, length) for each in r.rounds]
            calls = sum(counts[i] * self._call(r, i, length) for i in _rounds(r))
            overhead = _overhead(r) / len(r.rounds) * sum(counts)
            tokens += r.tokens
            seconds += _start(r) + self._pace * calls + overhead
            whole = full_rounds(r, self._max_tokens)
            full += sum(counts[i] for i in whole)
            full_tokens += sum(r.rounds[i][2] for i in whole)
        return Prediction(tokens / seconds, full_tokens / full if full else math.nan)

    def _call(self, record: Record, i: int, length: int) -> float:
        """Seconds of all calls of a round whose draft is cut to ``length``, by the curves."""
        positions, *rows = record.calls[i]
        nodes, depth = float(positions), record.rounds[i][1]
        if length < depth:
            # Of independent drafts every node but the last ones is scored by the draft too.
            whole, part = 1 + sum(rows[1 : length + 1]), 1 + (nodes - 1) * length / depth
            nodes = whole if self._independent else part
            rows = rows[: length + (len(rows) > depth)]
        return self._costs.target(nodes) + sum(map(self._costs.draft, rows))


def _rounds(record: Record) -> range:
    return range(len(record.rounds))


def _count(recorded: Sequence[int], length: int) -> float:
    """Rounds with drafts of ``length`` tokens in the place of a recorded one."""
    accepted, depth, emitted = recorded
    if length >= depth:
        return 1.0
    count = emitted / (length + 1)
    return count if accepted == depth else math.ceil(count)


def _start(record: Record) -> float:
    """Seconds until the first round: the prompt."""
    return max(0.0, record.first_token - fmean(record.gaps)) if record.gaps else 0.0


def _decoding(record: Record) -> float:
    """Seconds of all rounds."""
    return sum(record.seconds.values()) - _start(record)


def _overhead(record: Record) -> float:
    """Seconds of what is done between the calls."""
    return record.seconds["verify"] + record.seconds["other"]
