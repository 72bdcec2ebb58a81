"""The settings that are considered: kinds of drafting, each at several lengths.

A setting is a `Row`: a method with its K and L.
"""

from __future__ import annotations

from multidraft.bench.methods import AUTO as AUTO_METHOD
from multidraft.bench.methods import PLAIN as PLAIN_METHOD
from multidraft.bench.report.group import Row

PLAIN = Row(PLAIN_METHOD, 0, 0)
AUTO = Row(AUTO_METHOD, 0, 0)

#: Draft lengths that are predicted. The longest is recorded.
LENGTHS = (1, 2, 3, 4, 5, 6, 8)

#: Each kind of drafting at its longest: one draft, independent drafts, trees of the draft model,
#: what the text had before, and both in one tree.
KINDS = tuple(
    Row(method, num_drafts, LENGTHS[-1])
    for method, num_drafts in (
        ("block", 1),
        ("spectr-gbv", 3),
        ("hybrid+traversal", 3),
        ("lookup+traversal", 3),
        ("union+traversal", 3),
    )
)


def at_length(kind: Row, length: int) -> Row:
    """The kind with drafts of another length."""
    return Row(kind.method, kind.num_drafts, length)
