"""Counting the tokens of text files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from multidraft.errors import InvalidInput
from multidraft.models.head_list import vocabulary_size

_PIECE = 1 << 16  # characters; a piece then goes on to the end of its line
_BATCH = 16  # pieces that the tokenizer gets at once


def text_files(paths: Sequence[Path]) -> list[Path]:
    """The files, and all files below the folders but hidden ones, in order of name.

    Raises:
        InvalidInput: a path that does not exist, or nothing there.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(p for p in path.rglob("*") if p.is_file() and not _hidden(p, path))
        elif path.is_file():
            files.append(path)
        else:
            raise InvalidInput(f"There is no file or folder {path}.")
    if not files:
        raise InvalidInput(f"There are no files in {', '.join(map(str, paths))}.")
    return files


def count_tokens(
    files: Sequence[Path], tokenizer: Any, done: Callable[[int], None] = lambda size: None
) -> tuple[np.ndarray, list[Path]]:
    """How often each token comes in the files, int64 ``[V]``, and the files that were
    left out because they are not UTF-8 text.

    ``done`` is told the bytes of each part that has been counted.

    Raises:
        InvalidInput: a file that cannot be read, or no text in any.
    """
    counts = np.zeros(vocabulary_size(tokenizer), dtype=np.int64)
    left_out: list[Path] = []
    for file in files:
        try:
            counts += _count(file, tokenizer, done)
        except UnicodeDecodeError:
            left_out.append(file)
        except OSError as error:
            raise InvalidInput(f"{file} cannot be read ({error.strerror or error}).") from error
    if not counts.any():
        raise InvalidInput("There is no text in these files; give files in UTF-8.")
    return counts, left_out


def by_frequency(counts: np.ndarray) -> np.ndarray:
    """All ids, most frequent first; equal ones, and so those never seen, by rising id: merges that
    a tokenizer learnt early are frequent ones."""
    return np.argsort(-counts, kind="stable")


def _count(file: Path, tokenizer: Any, done: Callable[[int], None]) -> np.ndarray:
    counts = np.zeros(vocabulary_size(tokenizer), dtype=np.int64)
    pieces = _pieces(file)
    while batch := list(islice(pieces, _BATCH)):
        rows = tokenizer(batch, add_special_tokens=False, verbose=False)["input_ids"]
        ids = np.concatenate([np.array(row, dtype=np.int64) for row in rows])
        counts += np.bincount(ids, minlength=len(counts))
        done(sum(len(piece.encode()) for piece in batch))
    return counts


def _pieces(file: Path) -> Iterator[str]:
    """The text in pieces that end with a line, where a line is not very long itself."""
    with file.open(encoding="utf-8", newline="") as text:
        while piece := text.read(_PIECE) + text.readline(_PIECE):
            if "\0" in piece:
                raise UnicodeDecodeError("utf-8", b"\0", 0, 1, "not text")
            yield piece


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)
