"""The part of a report on how many answers are right: a table, and sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from multidraft.bench.methods import PLAIN
from multidraft.bench.quality.equivalence import Equivalence, wilson
from multidraft.bench.quality.grade import gradable
from multidraft.bench.report.bootstrap import CONFIDENCE
from multidraft.bench.report.comparisons import LEVEL
from multidraft.bench.report.graded import ALL, DIFFERENT, EQUIVALENT, OPEN, Graded
from multidraft.bench.report.load import Run
from multidraft.bench.report.table import (
    DATASET,
    DRAFT_LENGTH,
    METHOD,
    NUM_DRAFTS,
    Column,
    Estimate,
    Table,
    Value,
)

#: The largest difference in accuracy that is called none.
MARGIN = 0.05


def quality_table(part: Sequence[Graded], margin: float, number: int) -> Table:
    """One group's methods."""
    group = part[0].group
    columns = (
        *(DATASET, METHOD, NUM_DRAFTS, DRAFT_LENGTH),
        Column("prompts", "prompts"),
        Column("accuracy", "accuracy", ".3f"),
        Column("cut", "cut off"),
        Column("difference", f"difference to {PLAIN} (90% interval)", "+.3f"),
        Column("margin_shown", "margin shown", ".3f"),
        Column("verdict", f"within ±{margin:g}?"),
    )
    rows: list[Mapping[str, Value]] = []
    for each in part:
        low, high = wilson(each.right, CONFIDENCE)
        share = float(np.mean([right for prompt in each.right for right in prompt]))
        row: dict[str, Value] = {
            "dataset": each.dataset,
            "method": each.row.method,
            "num_drafts": each.row.num_drafts,
            "draft_length": each.row.draft_length,
            "prompts": len(each.grades),
            "accuracy": Estimate(share, low, high),
            "cut": each.cut,
            "difference": Estimate(np.nan),
            "margin_shown": np.nan,
            "verdict": each.verdict(margin),
        }
        if each.against is not None:
            with_interval = (each.against.difference, each.against.low, each.against.high)
            row["difference"] = Estimate(*with_interval, marked=each.corrected < LEVEL)
            row["margin_shown"] = each.against.shown
        rows.append(row)
    notes = [
        "Accuracy: share of right answers (pass@1 of HumanEval, exact match of the others), with a "
        "95% Wilson interval. Cut off: answers that ended at max_tokens, which count as wrong. "
        "Margin shown: the smallest within which these answers establish equivalence."
    ]
    return Table(f"quality-{number}", f"{group}: right answers", columns, rows, group.keys, notes)


def quality_rule(found: Sequence[Graded], margin: float) -> str:
    """What the verdicts mean."""
    tests = sum(each.against is not None for each in found)
    if not tests:
        return f"There is no plain decoding ({PLAIN}) to hold a method against."
    return (
        f"A method is called equivalent to plain decoding ({PLAIN}) where two one-sided tests at "
        f"{LEVEL:.0%} show that its share of right answers differs by less than {margin:g} (the "
        "90% interval of the difference lies within the margin). Each method is a claim of its "
        f"own. It is called different where a paired test over prompts has p < {LEVEL:g} after "
        f"Holm's correction over {tests} comparisons."
    )


def cut_off(found: Sequence[Graded], max_tokens: int) -> Iterator[str]:
    """How many answers were cut, where any were."""
    single = [each for each in found if each.dataset != ALL]
    cut, answers = sum(each.cut for each in single), sum(each.answers for each in single)
    if cut:
        yield (
            f"{cut} of {answers} answers were cut off at {max_tokens} tokens and count as wrong. "
            "Methods whose answers are all cut off agree for that reason alone: the more there "
            "are, the less equivalence says."
        )


def not_graded(run: Run) -> Iterator[str]:
    """How many answers could be graded and are not, by data set."""
    left = [r.cell.dataset for r in run.records if r.key not in run.grades]
    for dataset, count in Counter(filter(gradable, left)).items():
        yield f"{dataset}: {count} answers are not graded; `multidraft bench grade` grades them."


def quality_words(found: Sequence[Graded], margin: float) -> dict[str, list[str]]:
    """Sentences on each comparison, by verdict."""
    several = len({id(each.group) for each in found}) > 1
    headings = {
        EQUIVALENT: f"Equivalent within ±{margin:g}",
        OPEN: "Not established",
        DIFFERENT: "Different",
    }
    words: dict[str, list[str]] = {heading: [] for heading in headings.values()}
    for each in found:
        if each.against is not None:
            where = f"{each.group}: " if several else ""
            text = f"{where}{_sentence(each, each.against, margin)}"
            words[headings[each.verdict(margin)]].append(text)
    return {heading: texts for heading, texts in words.items() if texts}


def _sentence(each: Graded, against: Equivalence, margin: float) -> str:
    dataset = "all data sets together" if each.dataset == ALL else each.dataset
    effect = f"{against.difference:+.3f} [{against.low:+.3f}, {against.high:+.3f}]"
    text = f"{each.row} on {dataset}: {effect} over {against.prompts} prompts"
    verdict = each.verdict(margin)
    if verdict == DIFFERENT:
        within = ", yet within the margin" if against.shown < margin else ""
        p = "p < 0.001" if each.corrected < 0.001 else f"p = {each.corrected:.3f}"
        return f"{text} ({p}){within}."
    if verdict == EQUIVALENT:
        return f"{text}; the smallest margin they show is ±{against.shown:.3f}."
    return (
        f"{text}, which show no less than ±{against.shown:.3f}; without any difference so many "
        f"would show ±{against.best:.3f} at best. To show ±{margin:g} takes about "
        f"{against.prompts_needed(margin):,} prompts."
    )
