"""JSON lines between the audit and a program that samples; one object a line, UTF-8.

A request line, on the program's standard input:

    {"id": 7, "prompt": "abca", "prompt_token_ids": [0, 1, 2, 0], "max_tokens": 5,
     "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "seed": 41,
     "ignore_eos": true, "more": 0}

``top_k`` 0 is off. ``more`` requests of the same batch follow at once: a program that batches
collects lines until it is 0, one that does not ignores it.

An answer line, on its standard output, in any order, with the request's ``id``:

    {"id": 7, "token_ids": [3, 1, 4, 1, 5]}   or   {"id": 7, "text": "dbebf"}
    {"id": 7, "error": "out of memory"}       ends the audit with that message

Nothing else may be written to standard output; standard error is free. End of input: exit.
The project's own workers also write one line before all answers, once they are ready:
``{"name": "engine version, mode"}``, or ``{"error": "..."}`` where they cannot be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from multidraft.audit.samplers.answers import checked
from multidraft.audit.setting import Answer, Request, Setting
from multidraft.errors import AuditError
from multidraft.hosted.messages import shown


def request_line(number: int, request: Request, more: int, setting: Setting) -> str:
    """The line that asks for one sample."""
    message = {
        "id": number,
        "prompt": request.text,
        "prompt_token_ids": list(request.tokens),
        "max_tokens": setting.num_tokens,
        "temperature": setting.temperature,
        "top_p": setting.top_p,
        "top_k": setting.top_k,
        "min_p": setting.min_p,
        "seed": request.seed,
        "ignore_eos": True,
        "more": more,
    }
    return json.dumps(message) + "\n"


def batches(lines: Iterable[str]) -> Iterator[list[dict[str, Any]]]:
    """Request lines as batches of messages."""
    batch: list[dict[str, Any]] = []
    for line in lines:
        batch.append(json.loads(line))
        if batch[-1]["more"] == 0:
            yield batch
            batch = []


def answer_line(number: int, answer: Answer) -> str:
    """The line that answers request ``number``."""
    key = "text" if isinstance(answer, str) else "token_ids"
    return json.dumps({"id": number, key: answer}) + "\n"


def read_answer(message: dict[str, Any], setting: Setting) -> Answer:
    """The answer in a message.

    Raises:
        AuditError: there is none, or not of ``setting.num_tokens`` tokens.
    """
    tokens, text = message.get("token_ids"), message.get("text")
    if isinstance(text, str) and tokens is None:
        return text
    if text is None and isinstance(tokens, list) and all(type(token) is int for token in tokens):
        return checked(tokens, setting)
    line = json.dumps(message).encode()
    raise AuditError(
        f"An answer needs a list token_ids or a string text, and not both: {shown(line)}"
    )


def setting_to_json(setting: Setting) -> str:
    """A setting as a worker's argument."""
    values = {f.name: getattr(setting, f.name) for f in fields(setting) if f.init}
    return json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in values.items()})


def setting_from_json(text: str) -> Setting:
    """The setting `setting_to_json` wrote."""
    values = json.loads(text)
    values["target"] = Path(values["target"])
    values["draft"] = Path(values["draft"]) if values["draft"] is not None else None
    return Setting(**values)
