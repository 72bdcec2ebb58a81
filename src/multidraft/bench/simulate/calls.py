"""How many nodes each call of a record's rounds scored."""

from __future__ import annotations

from multidraft.bench.methods import parse_method
from multidraft.bench.records import Record

#: Of one round: nodes in the target's call, then in each of the draft's calls.
Calls = tuple[int, ...]


def calls_of(record: Record) -> tuple[list[Calls], int]:
    """The calls of every round, and in how many rounds they are not known.

    Independent drafts share the nodes of what they have in common. A record of a version that did
    not say how many there were is taken to have drafts that share nothing: the most there can be.
    """
    if record.calls:
        return [tuple(calls) for calls in record.calls], 0
    method = parse_method(record.cell.method)
    drafts = max(1, record.cell.num_drafts)
    has_model = method.proposer is not None and method.proposer.needs_draft
    found = []
    for _, depth, _ in record.rounds:
        rows = [1, *[drafts] * (depth - 1)] if has_model and depth else []
        found.append((1 + drafts * depth, *rows))
    single = method.proposer is None or (drafts == 1 and "+" not in method.name)
    return found, 0 if single else sum(depth > 0 for _, depth, _ in record.rounds)
