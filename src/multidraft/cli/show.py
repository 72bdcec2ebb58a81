"""Showing a generation as it runs, and its figures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer
from rich.table import Column, Table
from rich.text import Text

from multidraft.bench.compare import Comparison
from multidraft.engine import Decoder, Progress, Result, Sequence, Stats
from multidraft.engine.stats import PHASES
from multidraft.text import TextStream, special_ids

#: By origin of the token: an accepted draft, a residual draw, a draw from the target's own law.
COLOURS = {"draft": "green", "residual": "red", "bonus": "cyan"}


def run(
    decoder: Decoder,
    sequence: Sequence,
    interrupted: Callable[[], bool],
    show: Callable[[Progress], None] | None = None,
) -> Result:
    """Step one sequence to its end, or until interrupted; each round goes to ``show``."""
    while sequence.finish_reason is None:
        if interrupted():
            decoder.engine.cancel(sequence)
            break
        for progress in decoder.engine.step():
            if show is not None:
                show(progress)
    return sequence.result()


def print_text(progress: Progress) -> None:
    sys.stdout.write(progress.text)
    sys.stdout.flush()


def colour_printer(decoder: Decoder, stop: tuple[str, ...]) -> Callable[[Progress], None]:
    """Prints each token in its origin's colour."""
    tokenizer = decoder.target.tokenizer
    stream = TextStream(tokenizer, stop, special_ids(tokenizer))
    in_colour = sys.stdout.isatty()

    def show(progress: Progress) -> None:
        for token, origin in zip(progress.token_ids, progress.origins, strict=True):
            text = stream.push([token])  # written as it is: rich would drop control characters
            sys.stdout.write(typer.style(text, fg=COLOURS[origin]) if in_colour else text)
        if progress.sequence.finish_reason is not None:
            sys.stdout.write(stream.finish())  # what might have become a stop string
        sys.stdout.flush()

    return show


def legend() -> Text:
    return Text.assemble(
        ("accepted draft", COLOURS["draft"]),
        "  ",
        ("residual draw", COLOURS["residual"]),
        "  ",
        ("the target's own draw", COLOURS["bonus"]),
    )


def figures(result: Result, seed: int) -> str:
    """One line: what was generated, how fast, and where the time went."""
    stats = result.stats
    speed = stats.tokens_per_second or 0.0
    unit = "token" if stats.tokens == 1 else "tokens"
    parts = [f"{stats.tokens} {unit} in {stats.total_seconds:.2f} s ({speed:.1f} tokens/s)"]
    if stats.drafted:
        parts.append(f"block efficiency {number(stats.block_efficiency)}")
        if stats.acceptance_rate is not None:
            parts.append(f"acceptance {number(stats.acceptance_rate)}")
    parts.append(split(stats))
    parts += [f"seed {seed}", str(result.finish_reason)]
    return " · ".join(parts)


def split(stats: Stats) -> str:
    """Share of the time per phase, such as ``draft 41% target 52% verify 4% other 3%``."""
    total = stats.total_seconds or 1.0
    return " ".join(f"{phase} {stats.seconds[phase] / total:.0%}" for phase in PHASES)


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def comparison_table(rows: list[Comparison]) -> Table:
    """A row per method, in 80 columns; tok/call is the block efficiency."""
    right: dict[str, Any] = {"justify": "right", "no_wrap": True}
    table = Table(
        Column("method", no_wrap=True),
        Column("K", **right),
        Column("L", **right),
        Column("tokens", **right),
        Column("tok/call", **right),
        Column("tok/s", **right),
        Column("speed-up", **right),
        *(Column(phase, **right) for phase in PHASES),
        box=None,
        pad_edge=False,
        collapse_padding=True,
    )
    for row in rows:
        stats = row.result.stats
        total = stats.total_seconds or 1.0
        table.add_row(
            row.method,
            str(row.num_drafts or "–"),
            str(row.draft_length or "–"),
            str(stats.tokens),
            number(stats.block_efficiency),
            f"{stats.tokens_per_second or 0.0:.1f}",
            f"{row.speed_up:.2f}×",
            *(f"{stats.seconds[phase] / total:.0%}" for phase in PHASES),
        )
    return table
