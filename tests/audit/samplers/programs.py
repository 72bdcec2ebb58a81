"""Small programs that speak the protocol, well or badly, in place of an engine."""

from __future__ import annotations

import sys
from pathlib import Path

# Each sees `asked`, a request, and says something with `tell`. Tokens are all the seed modulo 8.
_START = """
import json, os, sys, time

def tell(message):
    print(json.dumps(message), flush=True)

def ids(asked):
    return [asked["seed"] % 8] * asked["max_tokens"]

for line in sys.stdin:
    asked = json.loads(line)
"""

LINE_BY_LINE = """
    tell({"id": asked["id"], "token_ids": ids(asked)})
"""
#: Answers a batch once it is complete, last request first, as text.
BATCHING = """
    held = globals().setdefault("held", [])
    held.append(asked)
    if asked["more"] == 0:
        while held:
            asked = held.pop()
            tell({"id": asked["id"], "text": "abcdefgh"[asked["seed"] % 8] * asked["max_tokens"]})
"""
#: Long answers, each before the next request is read.
TALKATIVE = """
    tell({"id": asked["id"], "token_ids": ids(asked), "padding": "x" * 5000})
"""
CRASHING = """
    if asked["seed"] == 5:
        print("warming up", file=sys.stderr)
        raise SystemError("the engine fell over")
    tell({"id": asked["id"], "token_ids": ids(asked)})
"""
CHATTING = """
    print("hello")
"""
NESTED = """
    print("[" * 100_000, flush=True)
"""
LIST_AS_ID = """
    tell({"id": [asked["id"]], "token_ids": ids(asked)})
"""
NO_ERROR = """
    tell({"id": asked["id"], "token_ids": ids(asked), "error": None})
"""
#: Its arguments, as text.
ARGUMENTS = """
    tell({"id": asked["id"], "text": " ".join(sys.argv[1:])})
"""
STUBBORN = """
    tell({"id": asked["id"], "token_ids": ids(asked)})
time.sleep(60)
"""
TOO_SHORT = """
    tell({"id": asked["id"], "token_ids": ids(asked)[1:]})
"""
REFUSING = """
    tell({"id": asked["id"], "error": "top_k is\\nnot supported"})
"""
TWICE = """
    tell({"id": asked["id"], "token_ids": ids(asked)})
    tell({"id": asked["id"], "token_ids": ids(asked)})
"""
WITHOUT_ANSWER = """
    tell({"id": asked["id"], "tokens": ids(asked)})
"""
SILENT = """
    time.sleep(60)
"""


def command(folder: Path, program: str) -> str:
    """The command line that runs a program."""
    path = folder / "program.py"
    path.write_text(_START + program)
    return f"'{sys.executable}' '{path}'"
