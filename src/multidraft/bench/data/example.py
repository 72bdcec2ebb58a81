"""What every data set is turned into, and the rows it is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multidraft.errors import InvalidInput


@dataclass(frozen=True)
class Example:
    """One prompt, in the two ways it can be put.

    Attributes:
        id: unique within its data set.
        prompt: the raw text to continue.
        messages: the chat messages to answer.
        reference: a published answer; None where there is none.
        extra: what else the data set says of it.
    """

    id: str
    prompt: str
    messages: list[dict[str, str]]
    reference: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def asked(text: str) -> list[dict[str, str]]:
    """One user's message."""
    return [{"role": "user", "content": text}]


@dataclass(frozen=True)
class Row:
    """One record of a data set as published, and where it stands, for messages."""

    values: Mapping[str, Any]
    where: str

    def text(self, name: str) -> str:
        """A field that holds text, and some.

        Raises:
            InvalidInput: it is missing, empty, or of another type.
        """
        value = self.get(name)
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(f"{self.where}: the field {name!r} {_problem(value)}.")
        return value

    def value(self, name: str) -> Any:
        """A field of any type; raises InvalidInput where it is missing."""
        value = self.get(name)
        if value is None:
            raise InvalidInput(f"{self.where}: the field {name!r} is missing.")
        return value

    def get(self, name: str) -> Any:
        """Any field, None where it is missing."""
        return self.values.get(name)

    def items(self, name: str) -> list[Any]:
        """A field that holds a list with something in it.

        Raises:
            InvalidInput: it is missing, empty, or of another type.
        """
        value = self.get(name)
        if not isinstance(value, list) or not value:
            raise InvalidInput(f"{self.where}: the field {name!r} {_problem(value, 'a list')}.")
        return value


def _problem(value: Any, wanted: str = "text") -> str:
    if value is None:
        return "is missing"
    if isinstance(value, (str, list)) and not (value.strip() if isinstance(value, str) else value):
        return "is empty"
    return f"must be {wanted}, not {type(value).__name__}"
