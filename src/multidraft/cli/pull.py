"""`multidraft pull` and `multidraft models`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table


def pull(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME…",
            help="Shipped ids (see `multidraft models`), hub ids, folders or .gguf files.",
        ),
    ],
    revision: Annotated[
        str | None,
        typer.Option(help="Branch, tag or commit, for a hub id; as in owner/name@REVISION."),
    ] = None,
) -> None:
    """Fetch models, so that later commands find them on this machine.

    What is there already is not fetched again; an interrupted pull goes on where it stopped.
    """
    from multidraft.models.disk import folder_bytes, show_bytes
    from multidraft.models.store import resolve

    out = Console(soft_wrap=True, highlight=False)
    for name in names:
        folder = resolve(name, revision)
        name = f"{name}@{revision}" if revision else name  # as other commands take it
        out.print(f"{name}: {show_bytes(folder_bytes(folder))} in {folder}", markup=False)


def models() -> None:
    """List the models that can be named: what is there, its size and where it is."""
    from multidraft.models.disk import cache_folder, show_bytes
    from multidraft.models.store import list_models

    # Folded, never cut: names and paths are there to be copied.
    table = Table(
        Column("NAME", overflow="fold", min_width=27),
        "STATE",
        Column("SIZE", justify="right"),
        Column("WHERE", overflow="fold"),
        box=None,
    )
    for model in list_models():
        where = escape(str(model.path or ""))
        table.add_row(escape(model.name), model.state, show_bytes(model.bytes), where)
    out = Console()
    out.print(table)
    out.print(f"Cache folder: {cache_folder()}", markup=False, soft_wrap=True)
