"""A HumanEval answer made into a program that fails unless the answer is right."""

from __future__ import annotations

import re
import textwrap

# At these a continuation of a function's body has ended: the stop sequences of the Codex paper
# (Chen et al. 2021, section 2.2).
_ENDS = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
_FENCE = re.compile(r"^```[^\n`]*\n(.*?)(?:^```|\Z)", re.MULTILINE | re.DOTALL)


def code_of(text: str, name: str) -> tuple[str, bool]:
    """The code in an answer, and whether it was finished, that is, something came after it.

    Of an answer with fenced blocks it is the first that defines the function, else the first. An
    answer without them is code itself: a whole module if it defines the function and does not begin
    with an indented line, else the rest of the function's body.

    Args:
        text: the answer.
        name: of the function that was asked for.
    """
    blocks = list(_FENCE.finditer(text))
    if blocks:
        block = next((each for each in blocks if _defines(each[1], name)), blocks[0])
        return block[1], block[0].endswith("```")
    if _defines(text, name) and not _indented(text):
        return text, False
    ends = [at for end in _ENDS if (at := text.find(end)) >= 0]
    return text[: min(ends, default=len(text))], bool(ends)


def make_program(prompt: str, code: str, name: str, test: str) -> str:
    """The answer's code in its place, the data set's test after it, and a call of the test.

    Code that defines the function takes the place of the prompt's beginning of it, and keeps the
    imports and helpers before that. Other code goes on where the prompt ends; it is indented where
    the answer left that out.
    """
    if _defines(code, name):
        before = re.split(rf"^def {re.escape(name)}\b", prompt, flags=re.MULTILINE)[0]
        answer = before + code
    else:
        answer = prompt + (code if _indented(code) else textwrap.indent(code, "    "))
    return f"{answer}\n\n{test}\n\ncheck({name})\n"


def _indented(code: str) -> bool:
    """Whether its first line that is not blank is."""
    first = next((line for line in code.splitlines() if line.strip()), "")
    return first.startswith((" ", "\t"))


def _defines(code: str, name: str) -> bool:
    return re.search(rf"^(?:async )?def {re.escape(name)}\b", code, re.MULTILINE) is not None
