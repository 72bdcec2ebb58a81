"""What the comparisons found, in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from multidraft.bench.report.comparisons import LEVEL, SPEED, Comparison
from multidraft.bench.report.group import Group
from multidraft.bench.report.load import Run
from multidraft.bench.report.measures import MEAN


def verdicts(comparisons: Sequence[Comparison]) -> tuple[list[str], list[str]]:
    """Sentences on the differences that are established, and on those that are not."""
    established: list[str] = []
    open_ones: list[str] = []
    several = len({id(c.measures) for c in comparisons}) > 1
    together: dict[tuple[object, ...], list[Comparison]] = defaultdict(list)
    for c in comparisons:
        together[c.measures, c.row, c.base, c.figure, _direction(c)].append(c)
    for part in together.values():
        text = _sentence(part, f"{part[0].measures.group}: " if several else "")
        (established if part[0].established else open_ones).append(text)
    return established, open_ones


def rule(comparisons: Sequence[Comparison]) -> str:
    """What established means, for so many comparisons."""
    count = len(comparisons)
    tests = "one comparison" if count == 1 else f"all {count} comparisons"
    text = (
        f"A difference is called established where its paired test over prompts has p < {LEVEL:g} "
        f"after correction over {tests} of this report: the chance that any of them is called so "
        f"falsely is at most {LEVEL:.0%}."
    )
    means = sum(c.is_mean for c in comparisons)
    if means:
        text += (
            f" The {means} of means over data sets come first, and a data set's is tested only "
            "where that of the mean is established (inheritance procedure, Goeman and Finos 2012)."
        )
    return text


def incomplete(groups: Sequence[Group]) -> list[str]:
    """Sentences on prompts and methods that were left out of paired figures."""
    found = []
    for group in groups:
        for dataset, sample in group.samples.items():
            if sample.left_out:
                total = sum(map(len, sample.records.values())) // len(sample.records)
                found.append(
                    f"{group}, {dataset}: {sample.left_out} of {total + sample.left_out} prompts "
                    "(each repetition counted) are left out, as not every method has them."
                )
            if sample.absent:
                names = ", ".join(map(str, sample.absent))
                found.append(
                    f"{group}, {dataset}: left out for having less than half of the prompts: "
                    f"{names}."
                )
            if not sample.units:
                found.append(f"{group}, {dataset}: no prompt was decoded by every method.")
    return found


def smaller_batches(run: Run) -> Iterator[str]:
    """Sentences on generations that were decoded with fewer beside them than their cell says."""
    together = Counter((r.cell, r.block, r.repetition) for r in run.records)
    for batch in sorted({cell.batch for cell, _, _ in together} - {1}):
        counts = [n for (cell, _, _), n in together.items() if cell.batch == batch]
        fewer = sum(n for n in counts if n < batch)
        if fewer:
            yield (
                f"Batch {batch}: {fewer} of {sum(counts)} generations had fewer beside them, at "
                "the end of a data set or beside prompts that failed."
            )


def _direction(c: Comparison) -> str:
    if not c.established:
        return ""
    if c.figure == SPEED:
        return "faster than" if c.effect.value > 1 else "slower than"
    return (
        "more tokens per target call than"
        if c.effect.value > 0
        else "fewer tokens per target call than"
    )


def _sentence(part: Sequence[Comparison], where: str) -> str:
    first = part[0]
    effects = "; ".join(f"{_dataset(c)} {_effect(c)}" for c in part)
    if first.established:
        return f"{where}{first.row} {_direction(first)} {first.base}: {effects}."
    return f"{where}{first.row} against {first.base}, {first.figure}: {effects}."


def _dataset(c: Comparison) -> str:
    return "mean over data sets" if c.dataset == MEAN else c.dataset


def _effect(c: Comparison) -> str:
    p = "p < 0.001" if c.corrected < 0.001 else f"p = {c.corrected:.3f}"
    if c.figure == SPEED:
        return f"{c.effect.value:.2f}× ({p})"
    return f"{c.effect.value:+.2f} ({p})"
