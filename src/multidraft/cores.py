"""How many cores there are to use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores that this process may use, which a scheduler may have limited; all, where the system
    does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
