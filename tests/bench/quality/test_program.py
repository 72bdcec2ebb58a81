"""HumanEval answers in the forms models give them, run for real."""

from __future__ import annotations

import pytest

from multidraft.bench.quality.program import code_of, make_program
from multidraft.bench.quality.sandbox import run_isolated
from tests.bench.quality.isolation import needs_isolation

PROMPT = '''from math import sqrt


def helper(x: int) -> int:
    return x + 1


def root_after(x: int) -> float:
    """ The square root of what comes after x. """
'''
TEST = """
METADATA = {}


def check(candidate):
    assert candidate(3) == 2.0
    assert candidate(8) == 3.0
"""
BODY = "    return sqrt(helper(x))\n"
WHOLE = f"def root_after(x: int) -> float:\n{BODY}"


def _fails(text: str) -> str:
    code, _ = code_of(text, "root_after")
    return run_isolated(make_program(PROMPT, code, "root_after", TEST))


@needs_isolation
@pytest.mark.parametrize(
    "text",
    [
        BODY,  # a completion
        f"{BODY}\n\nprint(root_after(input()))",  # that goes on
        f"{BODY}\n\ndef main():\n    raise SystemExit(1)\n\nmain()",
        f"{BODY}\n\n{WHOLE.replace('sqrt', 'int')}",  # that begins it anew
        WHOLE,
        f"Here you are:\n\n```python\n{WHOLE}```\n\nIt calls `helper`.",
        f"```python\n{WHOLE}",  # cut off, though whole
        f"First:\n```\npip install x\n```\nThen:\n```python\n{WHOLE}\n```",
        f"```python\n{BODY}```",
        f"```python\n{BODY.strip()}\n```",  # a body without its indentation
        f"```py\nimport math\n\n{WHOLE}\n\nif __name__ == '__main__':\n    1 / 0\n```",
    ],
)
def test_right(text):
    assert _fails(text) == ""


@needs_isolation
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("    return x\n", "AssertionError"),
        ("", "AssertionError"),  # the prompt alone is a function that returns None
        ("I would use `sqrt`.", "SyntaxError"),
        (f"```python\n{WHOLE}\nimport sys\nsys.exit(0)\n```", "ended early with status 0"),
        (f"```python\n{WHOLE}\nimport os\nos._exit(0)\n```", "ended early with status 0"),
    ],
)
def test_wrong(text, reason):
    assert reason in _fails(text)


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        (BODY, False),
        (f"{BODY}\nprint(1)", True),
        (f"{BODY}\n\n{WHOLE}", True),
        (f"```python\n{WHOLE}", False),
        (f"```python\n{WHOLE}```\nThis", True),
        (WHOLE, False),
    ],
)
def test_whether_it_was_finished(text, finished):
    assert code_of(text, "root_after")[1] == finished
