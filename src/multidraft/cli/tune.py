"""`multidraft tune`: which setting is fastest for a pair, on one's own prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from multidraft.cli import options as opt
from multidraft.cli.extras import needs_bench
from multidraft.errors import InvalidInput

if TYPE_CHECKING:
    from multidraft.bench.data import Example
    from multidraft.bench.tune.run import Tuning


def tune(
    target: opt.TargetName,
    draft: opt.DraftName,
    draft_head: opt.DraftHead = None,
    draft_dtype: opt.DraftDtype = "auto",
    prompts: Annotated[
        Path | None,
        typer.Option(help="Yours: .jsonl with a 'prompt' on each line, or .txt, one a line."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Instead: data sets, such as humaneval,gsm8k.")
    ] = None,
    data_dir: opt.DataDir = None,
    count: Annotated[
        int, typer.Option(min=1, help="Prompts to measure on, chosen at random.")
    ] = 12,
    temperature: opt.Temperature = 1.0,
    top_p: opt.TopP = 1.0,
    top_k: opt.TopK = 0,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-m", min=2, help="Of each answer.")
    ] = 64,
    chat: opt.DataChat = None,
    dtype: opt.Dtype = "auto",
    device: opt.Device = None,
    max_length: Annotated[int | None, typer.Option(help="Context to reserve.")] = None,
    max_time: Annotated[float, typer.Option(min=1.0, help="Seconds, loading not counted.")] = 600.0,
    as_json: opt.AsJson = False,
) -> None:
    """Measure settings side by side on your prompts, and recommend one.

    Ctrl-C ends it with what has been measured so far.
    """
    needs_bench("tune")
    console = Console(stderr=True)
    with console.status("Starting"):  # torch and transformers take seconds to import
        from multidraft.bench.tune.advice import too_few
        from multidraft.bench.tune.prompts import chat_by_default, encode
        from multidraft.bench.tune.run import Timer, Tuner
        from multidraft.cli.interrupt import interruptible
        from multidraft.models import load_model
        from multidraft.models.pair import check_draft_here, load_draft
        from multidraft.sampling import SamplingParams
    # Everything that can be refused is refused before the models are loaded.
    params = SamplingParams(
        temperature=temperature, top_p=top_p, top_k=top_k, max_tokens=max_tokens, seed=0
    )
    names = [part.strip() for part in (data or "").split(",") if part.strip()]
    examples = _examples(prompts, names, data_dir, count)
    check_draft_here(draft, draft_head, draft_dtype, device)
    if few := too_few(len(examples)):
        console.print(few, highlight=False, soft_wrap=True)

    loaded: dict[str, Any] = {"device": device, "max_length": max_length, "slots": 1}
    with console.status(f"Loading {target}"):
        target_model = load_model(target, dtype, **loaded)
    with console.status(f"Loading {draft}"):
        draft_model = load_draft(draft, target_model, draft_head, draft_dtype, **loaded)
    chat = chat_by_default(names, target_model) if chat is None else chat
    encoded = encode(examples, chat, target_model)
    with _progress(console) as told, interruptible() as interrupted:
        timer = Timer(max_time, interrupted)
        found = Tuner(target_model, draft_model, encoded, params, timer, told).run()
        stopped = interrupted()
    options = {
        "--temperature": (temperature, 1.0),
        "--top-p": (top_p, 1.0),
        "--top-k": (top_k, 0),
        "--dtype": (dtype, "auto"),
        "--device": (device, None),
        "--max-length": (max_length, None),
    }
    others = [
        word
        for name, (value, usual) in options.items()
        if value != usual
        for word in (name, f"{value:g}" if isinstance(value, float) else str(value))
    ]
    if not chat and chat_by_default([], target_model):
        others.append("--raw")
    drafted = ["--draft", draft, *(["--draft-head", draft_head] if draft_head else [])]
    drafted += ["--draft-dtype", draft_dtype] if draft_dtype != "auto" else []
    _show(found, target, drafted, others, as_json, stopped)
    if stopped:
        raise typer.Exit(130)


def _examples(
    prompts: Path | None, names: list[str], data_dir: Path | None, count: int
) -> list[Example]:
    from multidraft.bench.data import choose
    from multidraft.bench.tune.prompts import from_data, from_file

    if (prompts is None) == (not names):
        raise InvalidInput("Give prompts to measure on: either --prompts FILE or --data NAME.")
    if prompts is not None and data_dir is not None:
        raise InvalidInput("--data-dir goes with --data, not with --prompts; leave it out.")
    found = from_data(names, data_dir) if prompts is None else from_file(prompts)
    return choose(found, count, seed=0)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str, float], None]]:
    """A bar with the time left."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("Starting", total=None, left="")
        begun = bars.get_time()

        def told(what: str, left: float) -> None:
            minutes, seconds = divmod(round(left), 60)
            passed = bars.get_time() - begun
            bars.update(
                task,
                description=what,
                completed=passed,
                total=passed + left,
                left=f"{minutes}:{seconds:02} left",
            )

        yield told


def _show(
    found: Tuning,
    target: str,
    drafted: list[str],
    others: list[str],
    as_json: bool,
    stopped: bool,
) -> None:
    from multidraft.bench.tune.advice import recommend
    from multidraft.bench.tune.command import generate_command
    from multidraft.bench.tune.table import as_table, notes, to_dict

    if found.figures is None and not stopped:
        if found.failed:
            raise InvalidInput(f"No prompt could be decoded; {next(iter(found.failed.values()))}")
        raise InvalidInput(
            "No prompt was measured in the time; give more --max-time or fewer --max-tokens."
        )
    advice = recommend(found.figures, found.usable) if found.figures else None
    command = generate_command(advice.row, target, drafted, others) if advice else None
    if as_json:
        values = to_dict(found)
        if advice is not None:
            values["recommended"] = {
                **asdict(advice.row),
                "reason": advice.reason,
                "command": command,
            }
        print(json.dumps({**values, "interrupted": stopped}, ensure_ascii=False))
        return
    out = Console(highlight=False)
    if found.predicted:
        out.print(as_table(found))
    for note in notes(found):
        out.print(note, markup=False, soft_wrap=True)
    if advice is not None:
        out.print(f"\n{advice.reason}\n", markup=False, soft_wrap=True)
        out.print(f"    {command}", markup=False, soft_wrap=True)
