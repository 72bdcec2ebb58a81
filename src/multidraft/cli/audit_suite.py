"""`multidraft audit suite`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from multidraft.cli import audit_options as opt
from multidraft.cli import options as common

if TYPE_CHECKING:
    from multidraft.audit.testmodels import Pair


def suite(
    engine: opt.Engine,
    detect: opt.Detect = 0.05,
    alpha: opt.Alpha = 0.001,
    max_time: opt.MaxTime = 180.0,
    vocab_size: opt.VocabSize = 8,
    model_seed: opt.ModelSeed = 1,
    seed: opt.Seed = 0,
    workers: opt.Workers = None,
    python: opt.Python = None,
    command: opt.Command = None,
    as_json: common.AsJson = False,
) -> None:
    """Audit an engine in a battery of settings, one factor varied at a time.

    --alpha is the whole suite's error rate, --max-time each setting's. A server serves one pair of
    test models, the battery needs two, so `openai` is audited one setting at a time. A command's
    line may hold {target}, {draft} and {draft_length}.
    """
    from multidraft.audit.blackbox import Access, workers_for
    from multidraft.audit.report import Heard, Plan
    from multidraft.audit.suite import Entry, battery_for, exit_code, run_suite
    from multidraft.cli.audit import test_pair
    from multidraft.cli.audit_show import entry_to_dict, sampling, suite_table
    from multidraft.errors import InvalidInput

    if engine.startswith("openai"):
        raise InvalidInput(
            "A suite needs several pairs of test models and a server serves one; audit the server "
            "in one setting at a time with `multidraft audit openai`."
        )
    access = Access(workers or workers_for(engine), python, None, None, command)

    def pair_at(distance: float) -> Pair:
        return test_pair(None, distance, vocab_size, model_seed)

    entries: list[Entry] = []
    number = len(battery_for(engine))
    try:
        with sampling(engine) as tell:

            def progress(name: str, heard: Heard) -> None:
                tell(heard, f"{engine}, {name} ({len(entries) + 1} of {number})")

            plan = Plan(detect, alpha, max_time, seed)
            for entry in run_suite(engine, pair_at, plan, access, progress):
                entries.append(entry)
    except KeyboardInterrupt:
        if not entries:
            raise
    if as_json:
        print(json.dumps([entry_to_dict(entry) for entry in entries]))
    else:
        out = Console(highlight=False)
        out.print(suite_table(entries))
        if len(entries) < number:
            out.print(f"Interrupted: {len(entries)} of {number} settings.", style="yellow")
    unfinished = 3 if len(entries) < number else 0
    raise typer.Exit(exit_code(entries) or unfinished)
