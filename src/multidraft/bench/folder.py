"""A run's folder on disk; see `multidraft.bench.records` for what is in it.

A record is written in one go once its generation is over. So a killed run loses at most what was
being generated, and a line that was cut off is dropped and its generation done again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from multidraft.bench.manifest import difference
from multidraft.bench.records import Cell, Record
from multidraft.errors import InvalidInput
from multidraft.models.disk import whole_file

_MANIFEST = "manifest.json"
_RECORDS = "records.jsonl"
_LOCK = ".lock"

T = TypeVar("T")


class RunFolder:
    """A folder open for one run; made by `open_folder`.

    Attributes:
        path: where it is.
        done: keys of the records in it.
        failed: how many of them have an error.
    """

    def __init__(self, path: Path):
        self.path = path
        self.done: set[tuple[Cell, str, int]] = set()
        self.failed = 0
        for record in read_records(path):
            self._note(record)

    def append(self, records: Sequence[Record]) -> None:
        """Write records that are not there yet."""
        lines = []
        for record in records:
            if record.key in self.done:
                raise AssertionError(f"{record.key} would be counted twice")
            lines.append(json.dumps(record.to_dict()) + "\n")
        with (self.path / _RECORDS).open("a", encoding="utf-8") as file:
            file.write("".join(lines))
        for record in records:
            self._note(record)

    def _note(self, record: Record) -> None:
        self.done.add(record.key)
        self.failed += bool(record.error)


@contextmanager
def open_folder(path: Path, manifest: Mapping[str, Any]) -> Iterator[RunFolder]:
    """Begin a run in a new folder, or continue the one that is there.

    Args:
        path: a folder that a run made, an empty one, or none yet.
        manifest: of the run about to start.

    Raises:
        InvalidInput: the folder holds something else, a run that differs in what matters, or one
            that another process is writing; or it cannot be written.
    """
    old = read_manifest(path)
    if old is not None and (problem := difference(old, manifest)):
        raise InvalidInput(
            f"{path} holds another run: {problem}; run it as it was, or choose another --out."
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
        if old is None and any(each.name != _LOCK for each in path.iterdir()):
            raise InvalidInput(f"{path} is not empty and no run's folder; choose another --out.")
        lock = FileLock(path / _LOCK)
        lock.acquire(timeout=0)
    except Timeout:
        raise InvalidInput(
            f"Another process is running in {path}; wait for it, or choose another --out."
        ) from None
    except OSError as error:
        raise InvalidInput(f"Cannot write to {path}: {error.strerror}.") from None
    try:
        sessions = [*(old or {"sessions": []})["sessions"], *manifest["sessions"]]
        _write_manifest(path, {**(old or manifest), "sessions": sessions})
        drop_cut_line(path / _RECORDS)
        yield RunFolder(path)
    finally:
        lock.release()


def read_manifest(path: Path) -> dict[str, Any] | None:
    """A folder's manifest, None where there is none.

    Raises:
        InvalidInput: it cannot be read.
    """
    file = path / _MANIFEST
    if not file.is_file():
        return None
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"Cannot read {file}: {error}.") from None
    if not isinstance(manifest, dict) or "sessions" not in manifest:
        raise InvalidInput(f"{file} is no run's manifest; choose another folder.")
    return manifest


def read_records(path: Path) -> Iterator[Record]:
    """A folder's records in the order they were written, a last line cut off left out.

    Raises:
        InvalidInput: a line is no record.
    """
    return read_lines(path / _RECORDS, Record.from_dict)


def read_lines(file: Path, make: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """What is on the lines of a file, nothing where there is none, a last line cut off left out.

    Args:
        file: of one JSON object a line.
        make: from an object.

    Raises:
        InvalidInput: a line is no such object.
    """
    if not file.is_file():
        return
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith("\n"):
                return
            try:
                made = make(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                raise InvalidInput(
                    f"{file} line {number} is no record ({error}); take the line out to have what "
                    "it stands for done again."
                ) from None
            yield made


def _write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    with whole_file(path / _MANIFEST) as new:
        new.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def drop_cut_line(file: Path) -> None:
    """Take a last line without its end out of a file, if there is one."""
    if not file.is_file():
        return
    with file.open("rb+") as records:
        content = records.read()
        records.truncate(content.rfind(b"\n") + 1)
