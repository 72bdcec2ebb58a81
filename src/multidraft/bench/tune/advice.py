"""The setting to recommend, and why."""

from __future__ import annotations

from dataclasses import dataclass

from multidraft.bench.report.group import Row
from multidraft.bench.report.table import Estimate
from multidraft.bench.tune.choose import MOST_CHOSEN
from multidraft.bench.tune.figures import Figures, least_prompts
from multidraft.bench.tune.settings import AUTO, PLAIN


@dataclass(frozen=True)
class Advice:
    """The setting, and a sentence or two why."""

    row: Row
    reason: str


def too_few(given: int) -> str:
    """What to do where fewer prompts are given than may be needed; "" where they are enough."""
    least = least_prompts(MOST_CHOSEN + 1)  # auto is the other one
    if given >= least:
        return ""
    return (
        f"{_counted(given)} may be too few to establish that anything is faster than plain "
        f"decoding; {_more_prompts(least)}."
    )


def recommend(figures: Figures, given: int) -> Advice:
    """A fixed setting where it is established to be faster than the controller, the controller
    where it is established to be faster than plain decoding; else the fastest fixed setting where
    that is, and plain decoding where nothing is.

    Args:
        figures: what was measured.
        given: prompts that there were to measure on.
    """
    prompts, least = figures.prompts, figures.least
    if prompts < least:
        mend = f"it takes {least}, more --max-time or fewer --max-tokens"
        return Advice(
            PLAIN,
            f"Only {_counted(prompts)} measured, too few to establish that anything is faster than "
            f"plain decoding: {_more_prompts(least) if given < least else mend}.",
        )
    gains = {row: figures.ratio(row, PLAIN) for row in figures.rows if row != PLAIN}
    fixed = [row for row in gains if row != AUTO]
    best = max(fixed, key=lambda row: gains[row].value)
    against_auto = figures.ratio(best, AUTO)
    faster, on = f"{gains[best].value:.2f} times as fast as plain decoding", _counted(prompts)
    best_pays = figures.faster(best, PLAIN)
    if best_pays and figures.faster(best, AUTO):
        return Advice(
            best,
            f"{best} was {faster} and {_percent(against_auto)} faster than auto; both are "
            f"established on {on}. On other texts auto may choose better.",
        )
    if figures.faster(AUTO, PLAIN):
        gain = f"{gains[AUTO].value:.2f} times as fast as plain decoding"
        return Advice(AUTO, f"auto was {gain}, established on {on}. {_beside(best, against_auto)}")
    if best_pays:
        return Advice(best, f"{best} was {faster}, established on {on}; auto's gain is not.")
    return Advice(
        PLAIN, f"Nothing is established to be faster than plain decoding on {_counted(prompts)}."
    )


def _beside(best: Row, against_auto: Estimate) -> str:
    """How auto and the best fixed setting compare where the latter is not established to win."""
    if against_auto.value <= 1.0:
        return f"No fixed setting was faster; the best was {best}."
    if against_auto.value <= 1.02:
        return f"It is within 2% of the best fixed setting, {best}, and adapts to the text."
    return (
        f"{best} was {_percent(against_auto)} faster on these prompts, which is not established; "
        "auto adapts to the text."
    )


def _more_prompts(least: int) -> str:
    return f"give {least} or more (--count {least}, or a longer file of prompts)"


def _percent(ratio: Estimate) -> str:
    return f"{ratio.value - 1.0:.0%}"


def _counted(prompts: int) -> str:
    return "1 prompt" if prompts == 1 else f"{prompts} prompts"
