"""Lists of a vocabulary's tokens, most frequent first, from which a reduced head takes its rows.

A list is an ``.npz`` file of numpy with three entries: ``ids`` (uint32), ``tokens`` (the SHA-256 of
the tokens that these ids stand for) and ``counted_for`` (the name of the model it was counted for).
It serves every tokenizer in which the ids stand for the same tokens, whatever else that one has:
models of one family pad the same vocabulary to different widths.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from multidraft.errors import InvalidInput
from multidraft.models.disk import whole_file

#: A size for a shipped list, a list file (``FILE@N`` takes its first N), or the ids themselves.
HeadTokens = int | str | Path | Sequence[int]

_SHIPPED = Path(__file__).parent / "heads"
_BUILD = "count one with `multidraft head MODEL TEXT… --out FILE.npz`"


def resolve_head_tokens(choice: HeadTokens, tokenizer: Any) -> Sequence[int]:
    """Token ids for what a user asked for.

    Raises:
        InvalidInput: there is no such list, it belongs to another vocabulary, it is shorter than
            the size asked for, or there is no tokenizer to match it to.
    """
    if tokenizer is None and isinstance(choice, int | str | Path):
        raise InvalidInput(
            "This model has no tokenizer, so no list can be matched to it; give token ids."
        )
    if isinstance(choice, str) and choice.isdecimal():
        choice = int(choice)
    if isinstance(choice, int):
        ids, name = _shipped(tokenizer)
        return _first(choice, ids, name)
    if isinstance(choice, str | Path):
        path, _, size = str(choice).rpartition("@")
        if path and size.isdecimal():
            return _first(int(size), read_list(Path(path), tokenizer), path)
        return read_list(Path(choice), tokenizer)
    return choice


def read_list(path: Path, tokenizer: Any) -> list[int]:
    """The ids of a list file, most frequent first.

    Raises:
        InvalidInput: it cannot be read, or was counted for a vocabulary in which they stand for
            other tokens.
    """
    ids, tokens, counted_for = _read(path)
    if _checksum(ids, tokenizer) != tokens:
        raise InvalidInput(
            f"{path} was counted for {counted_for}, whose vocabulary is not this model's; {_BUILD}."
        )
    return ids


def write_list(path: Path, ids: Sequence[int], tokenizer: Any, counted_for: str) -> None:
    """Write a list file, whole or not at all.

    Raises:
        InvalidInput: the file cannot be written.
    """
    try:
        with whole_file(path) as new, new.open("wb") as file:
            np.savez_compressed(
                file,
                ids=np.array(ids, dtype=np.uint32),
                tokens=np.array(_checksum(ids, tokenizer)),
                counted_for=np.array(counted_for),
            )
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror or error}).") from error


def vocabulary_size(tokenizer: Any) -> int:
    """One more than the largest id."""
    return 1 + int(max(tokenizer.get_vocab().values()))


def _shipped(tokenizer: Any) -> tuple[list[int], str]:
    """The ids of the list that ships for a tokenizer's vocabulary, and what to call it."""
    for path in sorted(_SHIPPED.glob("*.npz")):
        ids, tokens, _ = _read(path)
        if _checksum(ids, tokenizer) == tokens:
            return ids, f"the list shipped for this vocabulary ({path.stem})"
    known = ", ".join(path.stem for path in sorted(_SHIPPED.glob("*.npz")))
    raise InvalidInput(
        f"No list of frequent tokens ships for this model's vocabulary (only for {known}); "
        f"{_BUILD}."
    )


def _first(size: int, ids: list[int], name: str) -> list[int]:
    if not 1 <= size <= len(ids):
        raise InvalidInput(
            f"{name} has {len(ids)} tokens, from which the first {size} cannot be taken; ask for 1 "
            f"to {len(ids)}, or {_BUILD}."
        )
    return ids[:size]


def _read(path: Path) -> tuple[list[int], str, str]:
    try:
        with np.load(path, allow_pickle=False) as entries:
            ids: list[int] = entries["ids"].tolist()
            return ids, str(entries["tokens"]), str(entries["counted_for"])
    except FileNotFoundError:
        raise InvalidInput(f"There is no list of tokens at {path}; {_BUILD}.") from None
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error) as error:
        raise InvalidInput(f"{path} is not a list of tokens; {_BUILD}.") from error


def _checksum(ids: Sequence[int], tokenizer: Any) -> str:
    """SHA-256 of the tokens that the ids stand for; of an unknown id, None."""
    size = vocabulary_size(tokenizer)
    known = [i for i in ids if i < size]
    tokens = tokenizer.convert_ids_to_tokens(known) + [None] * (len(ids) - len(known))
    return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()
