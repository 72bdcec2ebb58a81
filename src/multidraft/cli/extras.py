"""The packages of an extra, asked for before a command begins."""

from __future__ import annotations

import importlib.util

from multidraft.errors import InvalidInput

# Of the extra "bench". Some come with the core's own packages, in some versions; `datasets` is
# missed only where the hub is asked, and says so there.
_BENCH = ("jinja2", "matplotlib", "psutil", "scipy", "yaml")


def needs_bench(command: str) -> None:
    """Raises InvalidInput where a package is missing that a command takes from the extra."""
    if any(importlib.util.find_spec(name) is None for name in _BENCH):
        raise InvalidInput(f"`{command}` needs more packages: pip install '.[bench]'")
