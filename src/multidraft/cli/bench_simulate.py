"""`multidraft bench simulate` and `bench costs`: the speed on another machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as Shown
from rich.text import Text

from multidraft.cli import options as opt
from multidraft.errors import InvalidInput

if TYPE_CHECKING:
    from multidraft.bench.report.table import Table


def simulate(
    run: Annotated[Path, typer.Argument(help="A run's folder; it may be unfinished.")],
    costs: Annotated[
        Path | None,
        typer.Option(help="A cost table, YAML or JSON; `bench costs` measures one."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Instead of a table: billions of parameters of target and draft, such as 33:1.3, "
            "on an A100 that does all it can."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for all tables and curves: HTML, Markdown, LaTeX and CSV."),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Predict a run's speed-ups on another machine, from its rounds and the machine's costs.

    Every prompt is decoded alone, whatever the run's batch.
    """
    if (costs is None) == (sizes is None):
        raise InvalidInput("Give the machine's costs: either --costs FILE or --sizes 33:1.3.")
    from multidraft.bench.report.files import PREDICTION, check_out
    from multidraft.bench.report.load import load_run
    from multidraft.bench.simulate.costs import read_costs
    from multidraft.bench.simulate.predict import predict
    from multidraft.bench.simulate.roofline import MACHINE, costs_of_sizes
    from multidraft.bench.simulate.tables import Predicted

    if costs is not None:
        table, machine = read_costs(costs), costs.name
    else:
        assert sizes is not None
        table, machine = costs_of_sizes(sizes), f"{sizes} billion parameters, {MACHINE}"
    if out is not None:
        check_out(out, PREDICTION)
    predicted = Predicted(predict(load_run(run), table), machine)
    files = predicted.write(out) if out is not None else []
    if as_json:
        print(json.dumps({"costs": table.to_dict(), **predicted.to_dict()}, indent=2))
        return
    console = Console()
    for each in (*predicted.main, *predicted.curves):
        _show(each, console)
    for note in predicted.notes:
        console.print(note, highlight=False, markup=False)
    if out is not None:
        others = sorted(name for name in files if "/" not in name)
        console.print(f"In {out}: {', '.join(others)}", highlight=False, markup=False)


def costs(
    target: opt.TargetName,
    draft: opt.DraftName,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, YAML.")],
    verifiers: Annotated[
        str | None, typer.Option(help="Such as token,spectr-gbv.  [all]", show_default=False)
    ] = None,
    num_drafts: opt.NumDrafts = 3,
    draft_length: Annotated[str, typer.Option("--draft-length", "-L", help="Such as 4,8.")] = "4,8",
    temperature: opt.Temperature = 1.0,
    dtype: opt.Dtype = "auto",
    draft_dtype: opt.RunDraftDtype = None,
    device: opt.Device = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Medians of so many.")] = 9,
) -> None:
    """Measure this machine's cost table for a pair of models."""
    from multidraft.bench.manifest import machine
    from multidraft.bench.simulate.costs import write_costs
    from multidraft.bench.simulate.measure import measure_costs
    from multidraft.models import load_model
    from multidraft.models.pair import check_draft_here, load_draft
    from multidraft.sampling import SamplingParams
    from multidraft.verify import VERIFIERS, get_verifier

    lengths = _lengths(draft_length)
    names = [name.strip() for name in verifiers.split(",")] if verifiers else list(VERIFIERS)
    for name in names:
        get_verifier(name)
    params = SamplingParams(temperature=temperature)
    if not out.absolute().parent.is_dir():
        raise InvalidInput(f"There is no folder {out.parent} to write to; make it first.")
    check_draft_here(draft, dtype=draft_dtype, device=device)
    target_model = load_model(target, dtype=dtype, device=device, slots=2)
    draft_model = load_draft(draft, target_model, dtype=draft_dtype, device=device, slots=2)
    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("Measuring", total=None)
        found = measure_costs(
            target_model,
            draft_model,
            names,
            num_drafts,
            lengths,
            params,
            repetitions,
            lambda done, total: bars.update(task, completed=done, total=total),
        )
    where = machine()
    comment = (
        f"{target} ({target_model.dtype}) with {draft} (draft dtype: {draft_dtype or 'the same'}), "
        f"K = {num_drafts}, T = {temperature:g}\n"
        f"{where['gpu'] or where['cpu']}, {where['threads']} threads; medians of {repetitions}, "
        "in seconds"
    )
    write_costs(found, out, comment)
    print(f"Costs written to {out}")


def _lengths(text: str) -> list[int]:
    try:
        lengths = sorted({int(part) for part in text.split(",")})
    except ValueError:
        lengths = [0]
    if lengths[0] < 1:
        raise InvalidInput(f"-L takes whole numbers from 1 up, with commas between, not {text!r}.")
    return lengths


def _show(table: Table, console: Console) -> None:
    shown = Shown(box=None, pad_edge=False)
    for column in table.shown:
        left = column.key == "method"
        shown.add_column(column.title, justify="left" if left else "right", no_wrap=left)
    for row in table.entries:  # without intervals, for which a terminal is too narrow
        shown.add_row(*(Text(each.text, style="bold" if each.marked else "") for each in row))
    console.print(table.title, style="bold", highlight=False, markup=False)
    console.print(shown)
    for note in table.notes:
        console.print(note, highlight=False, markup=False)
    console.print()
