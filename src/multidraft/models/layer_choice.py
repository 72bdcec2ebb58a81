"""Which layers of a target draft for it, as users write it: ``0-9,14`` or a calibrated file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from multidraft.errors import InvalidInput
from multidraft.models.disk import whole_file

#: No model has layers of this number.
_TOO_MANY = 10_000
#: What a draft that is made of the target's own layers is named by: ``self:LAYERS``.
SELF = "self:"


def is_self(name: str) -> bool:
    """Whether a draft's name says that it is made of the target's layers."""
    return name.startswith(SELF)


def settled(name: str) -> str:
    """A draft's name that means the same whatever becomes of files: layers as numbers.

    Raises:
        InvalidInput: as `parse_layers`.
    """
    if not is_self(name):
        return name
    return SELF + ",".join(map(str, parse_layers(name[len(SELF) :])))


def are_numbers(text: str) -> bool:
    """Whether ``text`` is read as layer numbers, not as a file's name."""
    return bool(text) and all(c in "0123456789,- " for c in text)


def parse_layers(text: str) -> list[int]:
    """Layer numbers from ``0-9,14`` or from a file that `write_layers` wrote.

    Raises:
        InvalidInput: neither of both.
    """
    if are_numbers(text):
        return _from_ranges(text)
    if not text:
        raise InvalidInput(f"Give the layers after {SELF}, such as {SELF}0-9,14.")
    path = Path(text)
    try:
        layers = json.loads(path.read_text(encoding="utf-8"))["layers"]
        if not isinstance(layers, list) or not layers:
            raise ValueError
        if not all(type(layer) is int and layer >= 0 for layer in layers):
            raise ValueError
    except OSError as error:
        raise InvalidInput(
            f"Cannot read the layers of {SELF}{text}: {error.strerror}. Give numbers such as "
            f"{SELF}0-9,14, or a file that `multidraft calibrate` wrote."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{text} holds no layers; make it with `multidraft calibrate`."
        ) from None
    return layers


def _from_ranges(text: str) -> list[int]:
    layers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError:
            raise InvalidInput(f"{part.strip()!r} in {SELF}{text} is no layer number.") from None
        if low > high:
            raise InvalidInput(f"{part.strip()} in {SELF}{text} is no layer; write {high}-{low}.")
        if high >= _TOO_MANY:
            raise InvalidInput(f"No model has the layers {part.strip()} of {SELF}{text}.")
        layers += range(low, high + 1)
    return layers


def write_layers(path: Path, target: str, layers: Sequence[int]) -> None:
    """Write a choice of layers; the file appears whole or not at all.

    Raises:
        InvalidInput: it cannot be written.
    """
    try:
        with whole_file(path) as new:
            new.write_text(json.dumps({"target": target, "layers": list(layers)}) + "\n")
    except OSError as error:
        raise InvalidInput(f"Cannot write {path}: {error.strerror}.") from None
