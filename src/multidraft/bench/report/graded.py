"""Each method's grades, and how they compare to plain decoding's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from multidraft.bench.methods import PLAIN
from multidraft.bench.quality.equivalence import Equivalence, equivalence
from multidraft.bench.quality.grades import Grade
from multidraft.bench.report.bootstrap import SEED
from multidraft.bench.report.comparisons import LEVEL
from multidraft.bench.report.group import Group, Row
from multidraft.bench.report.load import Run
from multidraft.bench.report.significance import holm, sign_flip_test

#: In the place of a data set's name: the prompts of all of them together.
ALL = "all"
_FLIPS = 20_000

EQUIVALENT, DIFFERENT, OPEN = "equivalent", "different", "not established"


@dataclass(frozen=True)
class Graded:
    """One method's grades on one data set.

    Attributes:
        group, dataset, row: where; the data set may be `ALL`.
        grades: of each prompt, of each repetition; the same prompts for all methods.
        against: compared to plain decoding; None for itself and where it was not run.
        corrected: p-value of there being a difference, after Holm's correction over the report.
    """

    group: Group
    dataset: str
    row: Row
    grades: Sequence[Sequence[Grade]]
    against: Equivalence | None = None
    corrected: float = 1.0

    @property
    def right(self) -> list[list[bool]]:
        return [[grade.right for grade in prompt] for prompt in self.grades]

    @property
    def answers(self) -> int:
        return sum(map(len, self.grades))

    @property
    def cut(self) -> int:
        return sum(grade.cut for prompt in self.grades for grade in prompt)

    def verdict(self, margin: float) -> str:
        """In a word: a difference that is there is told even where it is within the margin."""
        if self.against is None:
            return ""
        if self.corrected < LEVEL:
            return DIFFERENT
        return EQUIVALENT if self.against.shown < margin else OPEN


def graded(run: Run, groups: Sequence[Group]) -> list[Graded]:
    """Every method's grades on every data set that has some, and on all together."""
    found = [each for group in groups for each in _compared(list(_in_group(run, group)))]
    tested = [each for each in found if each.against is not None]
    if not tested:
        return found
    rng = np.random.default_rng(SEED)
    p_values = [
        sign_flip_test(each.against.per_prompt[:, None], _FLIPS, rng)[0]
        for each in tested
        if each.against is not None
    ]
    corrected = dict(zip(map(id, tested), holm(np.array(p_values)), strict=True))
    return [replace(each, corrected=float(corrected.get(id(each), 1.0))) for each in found]


def _in_group(run: Run, group: Group) -> Iterator[Graded]:
    together: dict[Row, list[list[Grade]]] = {}
    datasets = 0
    for dataset, sample in group.samples.items():
        by_row = {
            row: {
                (record.example, record.repetition): run.grades[record.key]
                for record in records
                if record.key in run.grades
            }
            for row, records in sample.records.items()
        }
        by_row = {row: grades for row, grades in by_row.items() if grades}
        if not by_row:
            continue
        common = sorted(set.intersection(*(set(grades) for grades in by_row.values())))
        prompts = [list(items) for _, items in groupby(common, key=lambda item: item[0])]
        if not prompts:
            continue
        datasets += 1
        here = {row: [[g[i] for i in items] for items in prompts] for row, g in by_row.items()}
        # Together are the methods that have every data set.
        kept = here.keys() if datasets == 1 else together.keys() & here.keys()
        together = {row: together.get(row, []) + here[row] for row in here if row in kept}
        for row, grades in here.items():
            yield Graded(group, dataset, row, grades)
    if datasets > 1:
        for row, grades in together.items():
            yield Graded(group, ALL, row, grades)


def _compared(part: Sequence[Graded]) -> Iterator[Graded]:
    plain = {each.dataset: each for each in part if each.row.method == PLAIN}
    for each in part:
        base = plain.get(each.dataset)
        if base is None or base is each:
            yield each
        else:
            yield replace(each, against=equivalence(each.right, base.right))
