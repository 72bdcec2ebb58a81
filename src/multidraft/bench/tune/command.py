"""A setting as the command that runs it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from multidraft.bench.methods import parse_method
from multidraft.bench.report.group import Row
from multidraft.bench.tune.settings import AUTO, PLAIN


def generate_command(row: Row, target: str, draft: Sequence[str], others: Sequence[str]) -> str:
    """`multidraft generate` with a setting; the prompt is to be added.

    Args:
        row: the setting.
        target: the model.
        draft: the options that name the draft, such as ``["--draft", "small"]``.
        others: options to pass on, such as the temperature's.
    """
    words = ["multidraft", "generate", "--target", target]
    if row == AUTO or parse_method(row.method).needs_draft:
        words += draft
    if row not in (PLAIN, AUTO):
        words += ["-v", row.method]
        if row.num_drafts > 1:
            words += ["-K", str(row.num_drafts)]
        words += ["-L", str(row.draft_length)]
    return shlex.join([*words, *others])
