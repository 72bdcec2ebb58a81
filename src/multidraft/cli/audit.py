"""`multidraft audit`: is an engine's output lossless? One engine, and the commands around it."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from multidraft.cli import audit_options as opt
from multidraft.cli import options as common
from multidraft.cli.audit_compare import compare
from multidraft.cli.audit_suite import suite
from multidraft.errors import InvalidInput, MultidraftError

if TYPE_CHECKING:
    from multidraft.audit.setting import Setting
    from multidraft.audit.testmodels import Pair

EXIT_CODES = {"LOSSLESS": 0, "BIASED": 1, "UNDECIDED": 3}
_DEFAULT = "engine"


class _EngineByDefault(TyperGroup):
    """`audit vllm …` means `audit engine vllm …`; the other commands go by their names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = [_DEFAULT, *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Exit code 1, which Python and rich end with when something breaks, is a verdict here."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except (BrokenPipeError, SystemExit):  # the reader of our output, such as `head`, has left
            _drop_output()
            raise typer.Exit(141) from None
        except MultidraftError:
            raise
        except OSError as error:
            _drop_output()
            raise InvalidInput(" ".join(str(error).split())) from error
        except Exception as error:
            if hasattr(error, "exit_code") or isinstance(error, typer.Abort):
                raise
            traceback.print_exc()
            raise typer.Exit(2) from error


def _drop_output() -> None:
    """What could not be written is not to be tried again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


audit = typer.Typer(
    cls=_EngineByDefault,
    help="Is an engine's sampled output really the target's law? Exit code 0: lossless, 1: "
    "biased, 3: undecided, 2: misuse or a failing engine.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@audit.callback()
def needs_extra() -> None:
    if importlib.util.find_spec("scipy") is None:
        raise InvalidInput("`audit` needs more packages: pip install '.[audit]'")


def engine(
    engine: opt.Engine,
    temperature: common.Temperature = 1.0,
    top_p: common.TopP = 1.0,
    top_k: common.TopK = 0,
    min_p: common.MinP = 0.0,
    num_drafts: common.NumDrafts = 3,
    draft_length: common.DraftLength = 3,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", "-n", help="Tokens a sample.  [draft length + 2]"),
    ] = None,
    batch: opt.Batch = 64,
    detect: opt.Detect = 0.03,
    alpha: opt.Alpha = 0.001,
    max_time: opt.MaxTime = None,
    distance: opt.Distance = 0.3,
    vocab_size: opt.VocabSize = 8,
    model_seed: opt.ModelSeed = 1,
    models: opt.Models = None,
    seed: opt.Seed = 0,
    workers: opt.Workers = None,
    python: opt.Python = None,
    base_url: opt.BaseUrl = None,
    model: opt.ModelName = None,
    command: opt.Command = None,
    as_json: common.AsJson = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture of observed against exact law.")
    ] = None,
) -> None:
    """Audit one engine in one setting, on test models whose exact law is known.

    `multidraft audit ENGINE` is short for it.
    """
    from multidraft.audit.blackbox import Access, audit_engine, workers_for
    from multidraft.audit.report import Plan
    from multidraft.cli.audit_show import print_report, sampling, to_dict

    if plot is not None:
        from multidraft.audit.plot import check_plot

        check_plot(plot)
    plan = Plan(detect, alpha, max_time, seed)
    pair = test_pair(models, distance, vocab_size, model_seed)
    setting = setting_of(
        pair,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        num_tokens=tokens if tokens is not None else draft_length + 2,
        num_drafts=num_drafts,
        draft_length=draft_length,
        batch=batch,
    )
    access = Access(workers or workers_for(engine), python, base_url, model, command)
    with sampling(engine) as progress:
        report = audit_engine(engine, setting, pair, plan, access, progress)
    if as_json:
        print(json.dumps(to_dict(report)))
    else:
        print_report(report)
    if plot is not None:
        from multidraft.audit.plot import draw

        draw(report, plot)
    raise typer.Exit(EXIT_CODES[report.verdict])


def models(
    folder: Annotated[Path, typer.Argument(help="New folder; target/ and draft/ are put there.")],
    distance: opt.Distance = 0.3,
    vocab_size: opt.VocabSize = 8,
    seed: opt.ModelSeed = 1,
) -> None:
    """Write the test models to a folder, for a server of your own to serve."""
    from multidraft.audit.testmodels import build_pair

    pair = build_pair(folder, distance, vocab_size, seed)
    print(f"target: {pair.target}\ndraft:  {pair.draft}")


def verifiers(as_json: common.AsJson = False) -> None:
    """Prove the product's own verifiers: every draft and every random outcome enumerated."""
    from multidraft.audit.proof import prove
    from multidraft.cli.audit_show import proof_table, proof_to_dict

    proofs = []
    with Console(stderr=True).status("") as status:
        for proof in prove():
            proofs.append(proof)
            status.update(f"{proof.case.name}: {proof.verifier}")
    if as_json:
        print(json.dumps([proof_to_dict(proof) for proof in proofs]))
    else:
        Console(highlight=False).print(proof_table(proofs))
    raise typer.Exit(0 if all(proof.exact for proof in proofs) else 1)


def test_pair(models: Path | None, distance: float, vocab_size: int, seed: int) -> Pair:
    """The user's pair of test models, or the one of these parameters, built once and kept."""
    from multidraft.audit.testmodels import build_pair, load_pair
    from multidraft.models.disk import cache_folder

    if models is not None:
        return load_pair(models)
    folder = cache_folder() / "audit" / f"distance-{distance}-vocab-{vocab_size}-seed-{seed}"
    return build_pair(folder, distance, vocab_size, seed)


def setting_of(pair: Pair, **options: Any) -> Setting:
    from multidraft.audit.setting import Setting

    return Setting(target=pair.target, draft=pair.draft, **options)


audit.command(_DEFAULT)(engine)
for _command in (suite, compare, verifiers, models):
    audit.command()(_command)
