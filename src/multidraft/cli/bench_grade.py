"""`multidraft bench grade`: which of a run's answers are right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress


def grade(
    run: Annotated[Path, typer.Argument(help="A run's folder; it may be unfinished.")],
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with the data sets' files.  [the run's]", show_default=False),
    ] = None,
    allow_code_execution: Annotated[
        bool,
        typer.Option(
            "--allow-code-execution",
            help="Run the code generated for HumanEval, in isolation; without it HumanEval is left "
            "out.",
        ),
    ] = False,
) -> None:
    """Grade a run's answers to HumanEval, GSM8K and MGSM.

    The grades are kept in the run's folder; `bench report` compares the methods by them. What is
    graded already is not graded again.
    """
    from multidraft.bench.quality.grade import grade_run

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("Grading", total=None)

        def show(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total)

        tallies, left_out = grade_run(run, data_dir, allow_code_execution, show)
    for tally in tallies:
        typer.echo(
            f"{tally.dataset}: {tally.answers} answers graded, {tally.right} right, {tally.cut} "
            "cut at max_tokens"
        )
    if left_out:
        typer.echo(
            f"humaneval: {left_out} answers not graded; --allow-code-execution lets their code run"
        )
