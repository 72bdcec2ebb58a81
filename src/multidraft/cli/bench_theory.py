"""`multidraft bench theory`: what a run's methods could accept, computed from its models' laws."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from multidraft.cli.counted import CountedBar

if TYPE_CHECKING:
    from multidraft.bench.theory.scores import Scores


def theory(
    run: Annotated[Path, typer.Argument(help="A run's folder; it may be unfinished.")],
    every: Annotated[int, typer.Option(min=1, help="Take every n-th place of each text.")] = 1,
    prompts: Annotated[
        int | None,
        typer.Option(min=1, help="Of each data set.  [all]", show_default=False),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the data sets' files now.  [as in the run]", show_default=False
        ),
    ] = None,
) -> None:
    """Compute the acceptance of one draft token along a run's texts, for K = 1 to 7.

    It goes into RUN/theory.jsonl, and `bench report` shows it. It can be stopped at any moment; the
    same command goes on with it.
    """
    console = Console(stderr=True)
    with console.status("Starting"):  # torch and transformers take seconds to import
        from multidraft.bench.theory.run import run as carry_out
        from multidraft.cli.interrupt import interruptible

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars,
        interruptible() as interrupted,
    ):
        shown = _Shown(bars)
        finished = carry_out(run, every, prompts, data_dir, shown, interrupted)
    notes = f" ({shown.failed} of this session's left out; their lines say why)"
    counted = f"{shown.done} of {shown.total} texts are scored{notes if shown.failed else ''}"
    if not finished:
        options = [f"--every={every}"] * (every > 1)
        options += [f"--prompts={prompts}"] * (prompts is not None)
        options += [f"--data-dir={data_dir}"] * (data_dir is not None)
        again = shlex.join(["multidraft", "bench", "theory", str(run), *options])
        message = f"Stopped: {counted}. Go on with: {again}"
        console.print(message, highlight=False, soft_wrap=True, markup=False)
        raise typer.Exit(130)
    print(f"{counted}; see them with: {shlex.join(['multidraft', 'bench', 'report', str(run)])}")


class _Shown(CountedBar):
    """Shows how far it is."""

    def scored(self, scores: Scores) -> None:
        self.done += 1
        self.failed += bool(scores.error)
        cell = scores.cell
        description = f"{cell.pair}, {cell.dataset}: text of {cell.method}"
        self._bars.update(self._task, advance=1, description=description)
