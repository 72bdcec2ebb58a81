"""How well `multidraft bench simulate` predicts a run's speed-ups on the machine it ran on.

    python docs/benchmarks/simulate_check.py RUN [--costs costs.yaml]

The costs are measured apart from the run: by `multidraft bench costs`, or, without --costs, here,
for the run's own pair, dtype, temperature, verifiers, K and L. Prints measured and predicted
speed-up of each method, and the seconds a token of each phase, predicted over measured.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from multidraft.bench.compare import PLAIN
from multidraft.bench.config import make_config
from multidraft.bench.manifest import machine
from multidraft.bench.methods import AUTO, parse_method
from multidraft.bench.pair import load_pair
from multidraft.bench.report.group import make_groups
from multidraft.bench.report.load import Run, load_run
from multidraft.bench.report.measures import SPEED_UP, Measures
from multidraft.bench.simulate.costs import CostTable, read_costs, write_costs
from multidraft.bench.simulate.measure import measure_costs
from multidraft.bench.simulate.predict import predict
from multidraft.engine.decoder import DEFAULT_VERIFIER
from multidraft.engine.stats import PHASES
from multidraft.sampling import SamplingParams


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a run's folder, with ar among its methods")
    parser.add_argument("--costs", type=Path, help="a table to use; else one is measured")
    parser.add_argument("--out", type=Path, default=Path("costs.yaml"), help="where it goes then")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--within", type=float, default=0.10, help="the error to stay within")
    args = parser.parse_args()

    run = load_run(args.run)
    if any(record.cell.batch != 1 for record in run.records):
        raise SystemExit(f"{run.name} decoded prompts in batches; take a run with batch 1.")
    # Peers have no rounds, and prompts that only they have would not be the same in both.
    run = replace(run, records=[record for record in run.records if record.rounds])
    if args.costs is None:
        costs = measure(run, args.repetitions)
        write_costs(costs, args.out, f"{run.name}: {machine()}")
        print(f"Costs written to {args.out}")
    else:
        costs = read_costs(args.costs)
    prediction = predict(run, costs)
    worst, worst_mean = 0.0, 0.0
    for measured, predicted in zip(
        map(Measures, make_groups(run)), map(Measures, make_groups(prediction.run)), strict=True
    ):
        for dataset in measured.by_dataset:
            errors = compare(measured, predicted, dataset)
            worst = max([worst, *errors])
            if dataset == measured.main:
                worst_mean = max([worst_mean, *errors])
    for note in prediction.notes:
        print(note)
    verdict = "within" if worst_mean <= args.within else "NOT within"
    print(f"Largest error of a speed-up: {worst_mean:.1%} of the mean over data sets,", end=" ")
    print(f"{worst:.1%} of a single one; the former is {verdict} {args.within:.0%}.")


def measure(run: Run, repetitions: int) -> CostTable:
    """The table of the run's only pair, as the run had it."""
    config = make_config(run.config, run.name)
    (pair,) = config.pairs
    if pair.draft is None:
        raise SystemExit(f"{run.name} has no draft model, so there is nothing to measure.")
    target, draft = load_pair(config, pair, slots=2)
    cells = [record.cell for record in run.records]
    verifiers = {parse_method(cell.method).verifier for cell in cells} - {""}
    if any(cell.method == AUTO for cell in cells):
        verifiers.add(DEFAULT_VERIFIER)
    # A run of auto alone has no K and L: those of `bench costs`.
    lengths = sorted({cell.draft_length for cell in cells} - {0}) or [4, 8]
    print(f"Measuring {', '.join(sorted(verifiers))}, {target.dtype}")
    return measure_costs(
        target,
        draft,
        sorted(verifiers),
        max(cell.num_drafts for cell in cells) or 3,
        lengths,
        SamplingParams(temperature=max(cell.temperature for cell in cells)),
        repetitions,
        lambda done, total: print(f"turn {done + 1} of {total}", flush=True),
    )


def compare(measured: Measures, predicted: Measures, dataset: str) -> Sequence[float]:
    """Print one data set's table; returns the errors of its speed-ups."""
    title = f"{measured.group}: {dataset}"
    phases = (*PHASES, "all")
    table = Table("method", "measured", "95%", "predicted", "error", *phases, title=title)
    errors = []
    for row in measured.group.rows:
        found = measured.estimate(dataset, SPEED_UP, row)
        guess = predicted.estimate(dataset, SPEED_UP, row)
        if math.isnan(found.value):
            continue
        error = guess.value / found.value - 1
        if row.method != PLAIN:
            errors.append(abs(error))
        ratios = [
            seconds(predicted, dataset, row, phase) / spent if spent else math.nan
            for phase in (*PHASES, "")
            for spent in [seconds(measured, dataset, row, phase)]
        ]
        table.add_row(
            str(row),
            f"{found.value:.2f}",
            f"{found.low:.2f}–{found.high:.2f}",
            f"{guess.value:.2f}",
            f"{error:+.1%}",
            *(f"{ratio:.2f}" for ratio in ratios),
        )
    Console(width=120).print(table)
    return errors


def seconds(measures: Measures, dataset: str, row: object, phase: str) -> float:
    """Seconds a token in a phase, or in all."""
    index = measures.group.rows.index(row)
    found = measures.by_dataset[dataset]
    total = found["seconds_per_token"].values[index]
    return total * found[f"{phase}_share"].values[index] if phase else total


if __name__ == "__main__":
    main()
