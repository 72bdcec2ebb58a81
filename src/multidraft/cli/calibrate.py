"""`multidraft calibrate`: which of a target's own layers draft best for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from multidraft.cli import options as opt
from multidraft.errors import InvalidInput

_MOST_TOKENS = 256  # more change the order of the layers little, and cost as much again


def calibrate(
    target: Annotated[str, typer.Argument(metavar="MODEL", help="An id, hub id or folder.")],
    text: Annotated[
        Path, typer.Option("--text", "-f", help="Text such as the model will write; 256 tokens.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write, for --draft self:FILE.")
    ],
    dtype: opt.Dtype = "auto",
    device: opt.Device = None,
) -> None:
    """Find the layers of a model that draft best for it: for targets without a small sibling.

    Takes minutes, once per model. Layers are left out one by one, each time the one that is missed
    least on the text; the most useful of the results is written.
    """
    try:
        sample = text.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInput(f"Cannot read {text}: {reason}.") from None
    from multidraft.models.layer_choice import SELF, are_numbers, write_layers

    if not out.absolute().parent.is_dir():
        raise InvalidInput(f"There is no folder {out.parent} to write to; make it first.")
    if out.is_dir() or out.resolve() == text.resolve():
        raise InvalidInput(f"--out must be a new file, not {out}, which would be lost.")
    if are_numbers(str(out)):
        raise InvalidInput(f"--out {out} would be read as layer numbers; take another name.")

    from multidraft.draft.calibrate import calibrate as find
    from multidraft.engine import Decoder
    from multidraft.models import load_model

    with Console(stderr=True).status(f"Loading {target}"):
        model = load_model(target, dtype=dtype, device=device, slots=1)
    tokens = Decoder(model).encode(sample)[: min(_MOST_TOKENS, model.max_length)]
    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("Trying layers", total=None)
        found = find(model, tokens, lambda done, n: bars.update(task, completed=done, total=n))
    best = max(found, key=lambda each: each.speed_up)
    table = Table("", "layers", "overlap", "step", "L", "expected", box=None, pad_edge=False)
    for each in found:
        table.add_row(
            "*" if each is best and best.draft_length else "",
            str(len(each.layers)),
            f"{each.overlap:.3f}",
            f"{each.cost:.2f}",
            str(each.draft_length or "–"),
            f"{each.speed_up:.2f}×" if each.draft_length else "no gain",
        )
    out_console = Console(highlight=False, soft_wrap=True)
    out_console.print(table)
    out_console.print(
        f"Of {model.num_layers} layers. overlap: P(a drafted token is accepted) at temperature 1; "
        "step: of the target's; L: the best length of one draft.",
        style="dim",
    )
    if not best.draft_length:
        out_console.print(
            "No choice of layers is expected to be faster than plain decoding; nothing is written."
        )
        raise typer.Exit(1)
    write_layers(out, target, best.layers)
    out_console.print(f"Written to {out}; use it with --draft {SELF}{out}", markup=False)
