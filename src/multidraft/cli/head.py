"""`multidraft head`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from multidraft.errors import InvalidInput

_SHOWN = (1024, 2048, 4096, 8192, 16384, 32768, 65536)


def head(
    model: Annotated[str, typer.Argument(help="The draft model, whose tokenizer counts.")],
    text: Annotated[
        list[Path],
        typer.Argument(
            metavar="TEXT…", help="Text files in UTF-8, or folders: like what will be generated."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The list file to write, in .npz.")],
    size: Annotated[
        int | None, typer.Option(help="Keep this many tokens.  [all of the vocabulary]")
    ] = None,
) -> None:
    """List a vocabulary's tokens by how often they come in text, for a draft's smaller head.

    A draft loaded with head_tokens="FILE@N" computes the logits of the first N tokens only.
    """
    if out.suffix != ".npz":
        raise InvalidInput(f"--out must end in .npz, not be {out}.")
    if not out.parent.is_dir():
        raise InvalidInput(f"There is no folder {out.parent} to write {out.name} to.")

    from multidraft.models.head_count import by_frequency, count_tokens, text_files
    from multidraft.models.head_list import vocabulary_size, write_list
    from multidraft.models.load import load_tokenizer

    files = text_files(text)
    tokenizer = load_tokenizer(model)
    most = vocabulary_size(tokenizer)
    if size is not None and not 1 <= size <= most:
        raise InvalidInput(f"--size must lie in 1 ... {most}, not be {size}.")
    with _bar() as bar:
        task = bar.add_task("Counting", total=sum(file.stat().st_size for file in files))
        counts, left_out = count_tokens(files, tokenizer, lambda n: bar.advance(task, n))
    ids = by_frequency(counts)
    write_list(out, ids[:size].tolist(), tokenizer, model)

    out_of = Console(soft_wrap=True, highlight=False)
    skipped = f"; {len(left_out)} more are not UTF-8 text" if left_out else ""
    out_of.print(
        f"{counts.sum():,} tokens, {(counts > 0).sum():,} different ones, in "
        f"{len(files) - len(left_out):,} files{skipped}.",
        markup=False,
    )
    table = Table(
        Column("FIRST", justify="right"), Column("OF THE TEXT", justify="right"), box=None
    )
    shares = counts[ids].cumsum() / counts.sum()
    last = len(ids) if size is None else size
    for shown in [*(n for n in _SHOWN if n < last), last]:
        table.add_row(f"{shown:,}", f"{shares[shown - 1]:.2%}")
    out_of.print(table)
    seen = int((counts > 0).sum())
    if seen < last:
        out_of.print(
            f"Those after the first {seen:,} never came, and stand in the vocabulary's order; more "
            "text makes a better list."
        )
    out_of.print(f"Written to {out}", markup=False)


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
