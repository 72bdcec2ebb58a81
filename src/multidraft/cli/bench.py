"""`multidraft bench`: methods measured side by side on data sets."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from multidraft.cli import options as opt
from multidraft.cli.bench_grade import grade
from multidraft.cli.bench_report import report
from multidraft.cli.bench_simulate import costs, simulate
from multidraft.cli.bench_theory import theory
from multidraft.cli.counted import CountedBar
from multidraft.cli.extras import needs_bench
from multidraft.errors import InvalidInput

if TYPE_CHECKING:
    from multidraft.bench.records import Record

bench = typer.Typer(
    help="Measure methods side by side on data sets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@bench.callback()
def needs_extra() -> None:
    needs_bench("bench")


@bench.command()
def run(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="The run's folder; one that is there already is continued."
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="YAML file; options given besides replace its keys."),
    ] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="The target model.")] = None,
    draft: Annotated[
        str | None,
        typer.Option("--draft", "-d", help="The draft model, or self:LAYERS of the target."),
    ] = None,
    draft_head: Annotated[
        str | None, typer.Option(help="The draft's frequent tokens: how many, or a list file.")
    ] = None,
    draft_dtype: opt.RunDraftDtype = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data sets, such as humaneval,gsm8k,mgsm-de or file:prompts.jsonl."),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Such as ar,spectr-gbv,hybrid+traversal,transformers:assisted."),
    ] = None,
    num_drafts: Annotated[
        str | None, typer.Option("--num-drafts", "-K", help="Drafts a round, such as 1,3.  [3]")
    ] = None,
    draft_length: Annotated[
        str | None, typer.Option("--draft-length", "-L", help="Tokens a draft, such as 4,6.  [4]")
    ] = None,
    temperature: Annotated[
        str | None, typer.Option("--temperature", "-T", help="Such as 0,0.4,1.  [1]")
    ] = None,
    prompts: Annotated[int | None, typer.Option(help="Of each data set.  [100]")] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", "-m", help="Of each answer.  [128]")
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(help="Times each prompt is decoded in each cell.  [1]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="[0]")] = None,
    batch: Annotated[
        str | None, typer.Option(help="Prompts decoded together, such as 1,4,8.  [1]")
    ] = None,
    chat: opt.DataChat = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Folder with the data sets' files.  [the hub]")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16, float16 or auto.  [auto]")
    ] = None,
    device: opt.Device = None,
    max_length: Annotated[int | None, typer.Option(help="Context to reserve.")] = None,
    vllm_python: Annotated[
        str | None,
        typer.Option(
            help="For vllm methods: the Python of the environment that has vLLM.  [this one]"
        ),
    ] = None,
) -> None:
    """Decode prompts with every method of a grid, and record each generation.

    A run can be stopped at any moment; the same command, or --out alone, goes on with it.
    """
    options = {
        "data": _split(data),
        "methods": _split(methods),
        "num_drafts": _numbers("-K", num_drafts, int),
        "draft_length": _numbers("-L", draft_length, int),
        "temperature": _numbers("-T", temperature, float),
        "prompts": prompts,
        "max_tokens": max_tokens,
        "repetitions": repetitions,
        "seed": seed,
        "batch": _numbers("--batch", batch, int),
        "chat": chat,
        "data_dir": data_dir,
        "dtype": dtype,
        "device": device,
        "max_length": max_length,
        "vllm_python": vllm_python,
    }
    if draft is not None and target is None:
        raise InvalidInput("--draft without --target: give both, or name the pair in --config.")
    of_draft = {"draft_head": draft_head, "draft_dtype": draft_dtype}
    for key, value in of_draft.items():
        if value is not None and draft is None:
            raise InvalidInput(
                f"--{key.replace('_', '-')} without --draft: give both, or name the pair in "
                "--config."
            )
    if target is not None:
        options["pairs"] = [{"target": target, "draft": draft, **of_draft}]
    given = {key: value for key, value in options.items() if value is not None}
    console = Console(stderr=True)

    with console.status("Starting"):  # torch and transformers take seconds to import
        from multidraft.bench.config import make_config, read_config
        from multidraft.bench.folder import read_manifest, read_records
        from multidraft.bench.run import run as carry_out
        from multidraft.cli.interrupt import interruptible

    source, values = "bench run", given
    if config is not None:
        source, values = str(config), {**read_config(config), **given}
    elif not given and (manifest := read_manifest(out)):
        source, values = f"{out}/manifest.json", manifest["config"]
    checked = make_config(values, source)
    with _shown(console) as shown, interruptible() as interrupted:
        finished = carry_out(checked, out, shown, interrupted)
    count, failed = shown.done, shown.failed
    notes = f" ({failed} of this session's failed; their records say why)" if failed else ""
    if not finished:
        again = shlex.join(["multidraft", "bench", "run", "--out", str(out)])
        message = f"Stopped: {count} of {shown.total} generations are recorded{notes}. Go on with: "
        console.print(message + again, highlight=False, soft_wrap=True, markup=False)
        raise typer.Exit(130)
    print(f"{count} generations recorded in {out}{notes}")
    if all(record.error for record in read_records(out)):
        console.print("Not one of them succeeded.", highlight=False)
        raise typer.Exit(1)


class _Shown(CountedBar):
    """Shows a run."""

    def recorded(self, records: Sequence[Record]) -> None:
        self.done += len(records)
        self.failed += sum(bool(record.error) for record in records)
        cell = records[0].cell
        description = f"{cell.pair}, {cell.dataset}: {cell.method}"
        self._bars.update(self._task, advance=len(records), description=description)


@contextmanager
def _shown(console: Console) -> Iterator[_Shown]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    # Cells differ in speed and take turns: only a long look back tells the time left.
    look_back = 3600.0
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        speed_estimate_period=look_back,
        transient=True,
    ) as bars:
        yield _Shown(bars)


def _split(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(option: str, text: str | None, kind: Callable[[str], Any]) -> list[Any] | None:
    parts = _split(text)
    if parts is None:
        return None
    try:
        return [kind(part) for part in parts]
    except ValueError:
        raise InvalidInput(
            f"{option} takes numbers with commas between them, not {text!r}."
        ) from None


bench.command()(grade)
bench.command()(report)
for command in (simulate, costs):
    bench.command()(command)
bench.command()(theory)
