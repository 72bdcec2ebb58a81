"""What a hosted engine's process writes."""

from __future__ import annotations

import json
from typing import Any

from multidraft.errors import EngineError

_SHOWN = 80  # characters of a wrong line that an error shows


def read_message(line: bytes) -> dict[str, Any]:
    """The object on a line a process wrote.

    Raises:
        EngineError: the line holds none, or reports an error.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise EngineError(f"It wrote a line that is no JSON object: {shown(line)}")
    if message.get("error") is not None:
        raise EngineError(" ".join(str(message["error"]).split()))
    return message


def shown(line: bytes) -> str:
    """A line as an error shows it."""
    text = line.decode(errors="replace").strip()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
