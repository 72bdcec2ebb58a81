"""`multidraft audit suite`: a fixed battery, one factor varied at a time from a centre."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from multidraft.audit.blackbox import Access, audit_engine, batches, drafts
from multidraft.audit.report import Heard, Plan, Report
from multidraft.audit.setting import Setting
from multidraft.audit.testmodels import Pair
from multidraft.errors import AuditError, InvalidInput

#: Mean total variation between draft and target at the centre, and where that is varied.
DISTANCE, OTHER_DISTANCE = 0.3, 0.6


@dataclass(frozen=True)
class Variation:
    """One setting of the battery: the centre with the given values changed."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    distance: float = DISTANCE
    needs_drafts: bool = False


BATTERY = (
    Variation("centre"),
    Variation("temperature 0", {"temperature": 0.0}),
    Variation("temperature 0.4", {"temperature": 0.4}),
    Variation("top_p 0.8", {"top_p": 0.8}),
    Variation("top_k 4", {"top_k": 4}),
    Variation("distance 0.6", {}, OTHER_DISTANCE, needs_drafts=True),
    Variation("draft length 1", {"draft_length": 1, "num_tokens": 3}, needs_drafts=True),
    Variation("draft length 5", {"draft_length": 5, "num_tokens": 7}, needs_drafts=True),
    Variation("batch 1", {"batch": 1}),
)


@dataclass(frozen=True)
class Entry:
    """What one setting gave: a report, or why the engine could not run it."""

    variation: Variation
    report: Report | None
    error: str = ""


def battery_for(engine: str) -> list[Variation]:
    """The settings that make a difference to an engine."""
    chosen = [v for v in BATTERY if drafts(engine) or not v.needs_drafts]
    return [v for v in chosen if batches(engine) or "batch" not in v.changes]


def centre(pair: Pair, engine: str) -> Setting:
    """Temperature 1, nothing truncated, K = 3 drafts of L = 3, eight requests at once."""
    return Setting(pair.target, pair.draft, batch=8 if batches(engine) else 1)


def run_suite(
    engine: str,
    pair_at: Callable[[float], Pair],
    plan: Plan,
    access: Access,
    progress: Callable[[str, Heard], None] = lambda name, heard: None,
) -> Iterator[Entry]:
    """Audit an engine in every setting of its battery.

    Args:
        engine: ``NAME`` or ``NAME:MODE``.
        pair_at: the test models at a distance.
        plan: for each setting, its alpha the whole suite's: each setting gets an equal part.
        access: how the engine is reached.

    Raises:
        InvalidInput: an unknown engine or mode, or an option that does not fit it. A later setting
            in which the engine fails, or that cannot be audited on these models, is an entry with
            its error, not the end of the suite. Ctrl-C is the end of it.
    """
    battery = battery_for(engine)
    each = replace(plan, alpha=plan.alpha / len(battery))
    for variation in battery:
        pair = pair_at(variation.distance)
        setting = replace(centre(pair, engine), **variation.changes)
        try:
            report = audit_engine(
                engine, setting, pair, each, access, partial(progress, variation.name)
            )
        except (AuditError, InvalidInput) as error:
            if isinstance(error, InvalidInput) and variation is battery[0]:
                raise
            yield Entry(variation, None, str(error))
            continue
        yield Entry(variation, report)
        if report.interrupted:
            return


def exit_code(entries: Sequence[Entry]) -> int:
    """1 if any setting is biased, else 2 if any failed, else 3 if any is undecided, else 0."""
    verdicts = {entry.report.verdict if entry.report else "FAILED" for entry in entries}
    for verdict, code in (("BIASED", 1), ("FAILED", 2), ("UNDECIDED", 3)):
        if verdict in verdicts:
            return code
    return 0
