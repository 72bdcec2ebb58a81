"""Which layers of a target draft for it, as users write it: ``0-9,14`` or a calibrated file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from multidraft.errors import InvalidInput

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


def parse_layers(text: str) -> list[int]:
    """Layer numbers from ``0-9,14`` or from a file that `write_layers` wrote.

    Raises:
        InvalidInput: neither of both.
    """
    if text and not any(c not in "0123456789,- " for c in text):
        return _from_ranges(text)
    path = Path(text)
    try:
        layers = json.loads(path.read_text(encoding="utf-8"))["layers"]
        if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
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
            layers += range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise InvalidInput(f"{part.strip()!r} in {SELF}{text} is no layer number.") from None
    return layers


def write_layers(path: Path, target: str, layers: Sequence[int]) -> None:
    """Write a choice of layers; the file appears whole or not at all.

    Raises:
        InvalidInput: it cannot be written.
    """
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(json.dumps({"target": target, "layers": list(layers)}) + "\n")
        new.replace(path)
    except OSError as error:
        raise InvalidInput(f"Cannot write {path}: {error.strerror}.") from None
