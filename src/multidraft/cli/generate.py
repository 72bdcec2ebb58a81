"""`multidraft generate`: one prompt, streamed; or several methods side by side on it."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from multidraft.cli import options as opt
from multidraft.errors import InvalidInput

if TYPE_CHECKING:
    from multidraft.engine import Decoder, Result
    from multidraft.engine.decoder import Prompt
    from multidraft.models import LanguageModel
    from multidraft.sampling import SamplingParams


def generate(
    prompt: Annotated[
        str | None, typer.Argument(help="The prompt; without it, --file or standard input.")
    ] = None,
    target: opt.TargetName = ...,  # type: ignore[assignment]
    draft: Annotated[
        str | None,
        typer.Option(
            "--draft",
            "-d",
            help="Draft model, or self:LAYERS of the target; without one, plain decoding, or "
            "-v lookup+traversal.",
        ),
    ] = None,
    draft_head: opt.DraftHead = None,
    draft_dtype: opt.DraftDtype = "auto",
    verifier: Annotated[
        str | None,
        typer.Option(
            "--verifier",
            "-v",
            help="See `multidraft verifiers`; with another drafter such as hybrid+traversal.  "
            "[traversal]",
        ),
    ] = None,
    num_drafts: Annotated[
        int | None,
        typer.Option(
            "--num-drafts",
            "-K",
            min=1,
            max=opt.MOST_DRAFTS,
            help="Drafts a round.  [without K, L and --compare: what is fastest, measured; else 3]",
        ),
    ] = None,
    draft_length: Annotated[
        int | None,
        typer.Option(
            "--draft-length",
            "-L",
            min=1,
            max=opt.LONGEST_DRAFT,
            help="Tokens a draft.  [see -K; else 4]",
        ),
    ] = None,
    draft_temperature: Annotated[
        float | None, typer.Option(min=0.0, help="The draft's own temperature.")
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-m")] = 256,
    temperature: opt.Temperature = 1.0,
    top_p: opt.TopP = 1.0,
    top_k: opt.TopK = 0,
    min_p: opt.MinP = 0.0,
    repetition_penalty: Annotated[float, typer.Option()] = 1.0,
    presence_penalty: Annotated[float, typer.Option()] = 0.0,
    frequency_penalty: Annotated[float, typer.Option()] = 0.0,
    stop: Annotated[list[str] | None, typer.Option(help="Stop string; may be repeated.")] = None,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Go on past end tokens.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Gives the same text again where -K or -L is given (else what is drafted depends "
            "on the clock).  [a fresh one]"
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the prompt from a file.")
    ] = None,
    chat: Annotated[
        bool | None,
        typer.Option(
            "--chat/--raw",
            help="Through the chat template, or as it is.  [--chat where there is a template]",
        ),
    ] = None,
    dtype: opt.Dtype = "auto",
    device: opt.Device = None,
    max_length: Annotated[int | None, typer.Option(help="Context to reserve.")] = None,
    show_drafts: Annotated[
        bool, typer.Option("--show-drafts", help="Colour each token by its origin.")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show each round's drafts, what was accepted, and why."),
    ] = False,
    compare: Annotated[
        str | None,
        typer.Option(help="Methods to run in turn on the prompt, such as ar,token,spectr-gbv."),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Generate text for one prompt, streamed as it comes, with one line of figures at the end."""
    text = _read_prompt(prompt, file)
    seed = secrets.randbits(32) if seed is None else seed
    if show_drafts and (as_json or compare):
        raise InvalidInput("--show-drafts goes with neither --json nor --compare; choose one.")
    if explain and (as_json or compare or show_drafts):
        raise InvalidInput("--explain goes with none of --json, --compare and --show-drafts.")
    drafting = compare or verifier or num_drafts or draft_length
    if compare and verifier:
        raise InvalidInput("--compare names the methods itself; leave --verifier out.")

    from multidraft.bench.compare import decoder_for, drafted_method, parse_methods
    from multidraft.bench.methods import PLAIN
    from multidraft.draft.named import MODEL, widest
    from multidraft.engine import Decoder
    from multidraft.engine.decoder import DEFAULT_VERIFIER
    from multidraft.models import load_model
    from multidraft.models.pair import check_draft_here, load_draft
    from multidraft.models.translated import TranslatedModel
    from multidraft.sampling import SamplingParams
    from multidraft.verify import get_verifier

    # Everything that can be refused is refused before the models are loaded.
    params = SamplingParams(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
        ignore_eos=ignore_eos,
        seed=seed,
    )
    if verifier == PLAIN:
        raise InvalidInput(
            f"{PLAIN!r} is plain decoding, which has no verifier; leave --verifier and --draft "
            f"out, or compare it: --compare {PLAIN},{DEFAULT_VERIFIER}."
        )
    if compare:
        methods = parse_methods(compare)
    elif not (draft or drafting):
        methods = [PLAIN]
    else:
        methods = [verifier or DEFAULT_VERIFIER]
    drafted = [drafted_method(name) for name in methods if name != PLAIN]
    needy = [method for method in drafted if method.needs_draft]
    if draft is None and needy:
        raise InvalidInput(f"The method {needy[0].name!r} needs a draft model; add --draft.")
    if draft is not None and not needy:
        raise InvalidInput(f"{', '.join(methods)} asks no draft model; leave --draft out.")
    of_draft = {
        "head": draft_head is not None,
        "dtype": draft_dtype != "auto",
        "temperature": draft_temperature is not None,
    }
    for name, given in of_draft.items():
        if draft is None and given:
            raise InvalidInput(f"--draft-{name} is the draft model's; add --draft.")
    if draft_temperature is not None and any(each.proposer is not MODEL for each in drafted):
        raise InvalidInput(
            "--draft-temperature is for independent drafts, not for trees of hybrid, lookup or "
            "union; leave it out."
        )
    if draft is not None:
        draft = check_draft_here(draft, draft_head, draft_dtype, device)
    if verifier and (num_drafts or 1) > 1 and get_verifier(drafted[0].verifier).drafts == "one":
        raise InvalidInput(f"The verifier {verifier!r} takes one draft; leave -K out.")

    notes = Console(stderr=True)
    options: dict[str, Any] = {"device": device, "max_length": max_length, "slots": 1}
    with notes.status(f"Loading {target}"):
        target_model = load_model(target, dtype, **options)
    request = _as_request(text, chat, target_model)
    draft_model: LanguageModel | None = None
    if draft is not None:
        with notes.status(f"Loading {draft}"):
            draft_model = load_draft(draft, target_model, draft_head, draft_dtype, **options)
        if isinstance(draft_model, TranslatedModel):
            said = draft_model.describe(Decoder(target_model).encode(request))
            notes.print(said, style="dim", highlight=False, markup=False, soft_wrap=True)
    # Nothing said of how much to draft: what is fastest is measured.
    if drafted and not (compare or num_drafts or draft_length):
        [method] = drafted
        assert method.proposer is not None
        takes = get_verifier(method.verifier).drafts
        drafter = widest(draft_model, takes, method.proposer, draft_temperature)
        with notes.status("Measuring what calls cost"):
            decoder = Decoder(target_model, drafter, method.verifier, controller="auto")
        _generate(decoder, request, params, show_drafts, explain, as_json)
        return
    decoders = {
        method: decoder_for(
            method, target_model, draft_model, num_drafts or 3, draft_length or 4, draft_temperature
        )
        for method in methods
    }
    if compare:
        _compare(decoders, request, params, as_json)
    else:
        _generate(decoders[methods[0]], request, params, show_drafts, explain, as_json)


def _generate(
    decoder: Decoder,
    request: Prompt,
    params: SamplingParams,
    show_drafts: bool,
    explain: bool,
    as_json: bool,
) -> None:
    from multidraft.cli import explain as explanation
    from multidraft.cli.interrupt import interruptible
    from multidraft.cli.show import colour_printer, figures, legend, print_text, run

    assert params.seed is not None
    show: Any = None if as_json else print_text
    if show_drafts:
        show = colour_printer(decoder, tuple(params.stop))
    elif explain:
        console = Console(highlight=False)
        console.print(explanation.legend(console), soft_wrap=True)
        show = explanation.Explainer(decoder, console)
    with interruptible() as interrupted:
        result = run(decoder, decoder.submit(request, params), interrupted, show)
    if as_json:
        print(json.dumps(_as_dict(result, params.seed), ensure_ascii=False))
    else:
        print(result.text if explain else "")
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    if show_drafts:
        notes.print(legend())
    notes.print(figures(result, params.seed), style="dim", markup=False)
    if result.finish_reason == "cancelled":
        raise typer.Exit(130)


def _compare(
    decoders: dict[str, Decoder], request: Prompt, params: SamplingParams, as_json: bool
) -> None:
    from multidraft.bench.compare import Comparison, compare
    from multidraft.cli.interrupt import interruptible
    from multidraft.cli.show import comparison_table, run

    notes = Console(stderr=True)
    rows: list[Comparison] = []
    with interruptible() as interrupted:
        runs = compare(decoders, request, params, lambda d, s: run(d, s, interrupted))
        with notes.status("") as status:
            for method in decoders:
                status.update(f"Running {method}")
                rows.append(next(runs))
                if interrupted():
                    break
    if as_json:
        seed = params.seed or 0
        print(
            json.dumps(
                [
                    {
                        "method": row.method,
                        "num_drafts": row.num_drafts,
                        "draft_length": row.draft_length,
                        "speed_up": row.speed_up,
                        **_as_dict(row.result, seed),
                    }
                    for row in rows
                ],
                ensure_ascii=False,
            )
        )
    else:
        out = Console(highlight=False)
        out.print(rows[-1].result.text, markup=False, soft_wrap=True)
        out.print()
        out.print(comparison_table(rows))
        out.print(f"The text is {rows[-1].method}'s; seed {params.seed}.", style="dim")
    if rows[-1].result.finish_reason == "cancelled":
        raise typer.Exit(130)


def _as_dict(result: Result, seed: int) -> dict[str, object]:
    return {
        "text": result.text,
        "token_ids": result.token_ids,
        "finish_reason": result.finish_reason,
        "origins": result.origins,
        "seed": seed,
        "stats": result.stats.to_dict(),
    }


def _read_prompt(prompt: str | None, file: Path | None) -> str:
    if prompt is not None and file is not None:
        raise InvalidInput("Give the prompt as an argument or with --file, not both.")
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InvalidInput(f"Cannot read the prompt from {file}: {reason}.") from None
    elif prompt is not None and prompt != "-":
        text = prompt
    elif sys.stdin.isatty():
        raise InvalidInput("No prompt: give it as an argument, with --file, or on standard input.")
    else:
        try:
            text = sys.stdin.read()
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"Cannot read the prompt from standard input: it is not {error.encoding} text."
            ) from None
    if not text:
        raise InvalidInput("The prompt is empty.")
    return text


def _as_request(text: str, chat: bool | None, target: LanguageModel) -> Prompt:
    if target.tokenizer is None:
        raise InvalidInput("The target has no tokenizer, so it cannot read text.")
    if chat is None:
        chat = bool(target.tokenizer.chat_template)
    return [{"role": "user", "content": text}] if chat else text
