"""Grades of a run's answers: ``quality.jsonl``, one line each, only ever appended to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from multidraft.bench.folder import drop_cut_line, read_lines
from multidraft.bench.records import Cell
from multidraft.errors import InvalidInput

_GRADES = "quality.jsonl"
_LOCK = ".quality.lock"
#: Number of the rules by which answers are graded; grades by different ones cannot be compared.
RULES = 2


@dataclass(frozen=True)
class Grade:
    """One answer's grade.

    Attributes:
        cell, example, repetition: of its record.
        right: whether the answer is right.
        cut: whether it ended at max_tokens before it was finished; it then is not right.
        found: the number it gave, or why its program failed; "" where there is nothing to say.
        rules: see `RULES`.
    """

    cell: Cell
    example: str
    repetition: int
    right: bool
    cut: bool = False
    found: str = ""
    rules: int = RULES

    @property
    def key(self) -> tuple[Cell, str, int]:
        """That of its record."""
        return self.cell, self.example, self.repetition

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Grade:
        return cls(**{**values, "cell": Cell(**values["cell"])})


def read_grades(run: Path) -> dict[tuple[Cell, str, int], Grade]:
    """A run folder's grades by their records' keys; none if nothing was graded.

    Raises:
        InvalidInput: a line is no grade, or one by other rules.
    """
    file = run / _GRADES
    grades = {grade.key: grade for grade in read_lines(file, Grade.from_dict)}
    if any(grade.rules != RULES for grade in grades.values()):
        raise InvalidInput(
            f"{file} was graded by another version's rules; remove it and grade the run again."
        )
    return grades


class GradeBook:
    """A run folder's grades, open for more of them; made by `open_grades`."""

    def __init__(self, run: Path):
        self._file = run / _GRADES
        self.grades = read_grades(run)

    def append(self, grade: Grade) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(grade)) + "\n")
        self.grades[grade.key] = grade


@contextmanager
def open_grades(run: Path) -> Iterator[GradeBook]:
    """The grades of a run folder, which may still be running.

    Raises:
        InvalidInput: as `read_grades`; another process is grading it; or it cannot be written.
    """
    lock = FileLock(run / _LOCK)
    try:
        lock.acquire(timeout=0)
        drop_cut_line(run / _GRADES)
    except Timeout:
        raise InvalidInput(f"Another process is grading {run}; wait for it.") from None
    except OSError as error:
        lock.release()
        raise InvalidInput(f"Cannot write to {run}: {error.strerror}.") from None
    try:
        yield GradeBook(run)
    finally:
        lock.release()
