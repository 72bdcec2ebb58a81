"""What every sampler does with requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from multidraft.audit.setting import Setting
from multidraft.errors import AuditError

T = TypeVar("T")


def split(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """The items in batches of at most ``size``."""
    return [items[i : i + size] for i in range(0, len(items), size)]


def checked(tokens: Sequence[int], setting: Setting) -> tuple[int, ...]:
    """The tokens as an answer.

    Raises:
        AuditError: they are not ``setting.num_tokens``.
    """
    if len(tokens) != setting.num_tokens:
        raise AuditError(
            f"An answer has {len(tokens)} tokens where {setting.num_tokens} were asked for; the "
            "engine must go on past end tokens and stop at max_tokens."
        )
    return tuple(tokens)
