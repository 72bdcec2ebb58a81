"""Reading published files as they are: JSON lines, a JSON array, MGSM's TSV, plain lines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from multidraft.bench.data.example import Row
from multidraft.errors import InvalidInput


def find_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files of the first pattern that matches any, plain or ``.gz``; [] if none does.

    Raises:
        InvalidInput: ``folder`` is no folder.
    """
    if not folder.is_dir():
        raise InvalidInput(f"There is no folder {folder}; --data-dir names one with data sets.")
    for pattern in patterns:
        found = sorted(folder.glob(pattern)) or sorted(folder.glob(f"{pattern}.gz"))
        if found:
            return found
    return []


def read_rows(path: Path) -> Iterator[Row]:
    """Rows of a file, in order, by what its name ends in; blank lines are passed over.

    Raises:
        InvalidInput: it cannot be read, or a line is not what it should be.
    """
    kind = Path(path.name.removesuffix(".gz")).suffix
    if kind == ".json":
        yield from _array(path)
        return
    parse = _PARSERS.get(kind, _plain)
    for number, line in _lines(path):
        where = f"{path} line {number}"
        yield Row(parse(line, where), where)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered from 1, without line ends. Only "\\n" ends a line: text may hold other breaks."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                line = raw.decode("utf-8").rstrip("\r\n")
                if line.strip():
                    yield number, line
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} line {number}: not UTF-8 text.") from None
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"Cannot read {path}: {reason}.") from None


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InvalidInput(f"{where}: not JSON ({error}).") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: not a JSON object; each line must be one.")
    return value


def _array(path: Path) -> Iterator[Row]:
    text = "\n".join(line for _, line in _lines(path))
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{path}: not JSON ({error}).") from None
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise InvalidInput(f"{path}: not a JSON array of objects.")
    for i, value in enumerate(values):
        yield Row(value, f"{path} entry {i}")


def _question_and_answer(line: str, where: str) -> dict[str, Any]:
    fields = line.split("\t")
    if len(fields) != 2:
        raise InvalidInput(
            f"{where}: {len(fields)} tab-separated fields instead of two, question and answer."
        )
    return {"question": fields[0], "answer_number": fields[1]}


def _plain(line: str, where: str) -> dict[str, Any]:
    return {"text": line}


_PARSERS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    ".jsonl": _json_object,
    ".tsv": _question_and_answer,
}
