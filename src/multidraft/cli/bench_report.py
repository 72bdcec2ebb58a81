"""`multidraft bench report`: what a run found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multidraft.errors import InvalidInput


def report(
    run: Annotated[Path, typer.Argument(help="A run's folder; it may be unfinished.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to.  [RUN/report]", show_default=False)
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD",
            help="Hold the others against this method; may be repeated.  [ar, token, spectr and "
            "greedy-block, where present]",
            show_default=False,
        ),
    ] = None,
    margin: Annotated[
        float, typer.Option(help="Largest difference in accuracy that is called none.")
    ] = 0.05,
) -> None:
    """Write a run's report: tables with intervals and tests, and plots.

    One page (HTML), and the same as Markdown, LaTeX and CSV.
    """
    if not 0 < margin < 1:
        raise InvalidInput(f"--margin is a difference of shares between 0 and 1, not {margin:g}.")
    from multidraft.bench.report.files import PAGE, write_report

    folder = run / "report" if out is None else out
    files = write_report(run, folder, baseline or [], margin)
    others = sorted(name for name in files if "/" not in name and name != PAGE)
    typer.echo(f"{folder / PAGE}\n(beside it: {', '.join(others)}, figures/, tables/)")
