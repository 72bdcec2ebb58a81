"""`multidraft audit compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multidraft.cli import audit_options as opt
from multidraft.cli import options as common
from multidraft.errors import InvalidInput

if TYPE_CHECKING:
    from multidraft.audit.law import Tokens

_EXIT_CODES = {"SAME": 0, "DIFFERENT": 1, "UNDECIDED": 3}


def compare(
    engine: opt.Engine,
    target: common.TargetName,
    prompts: Annotated[
        Path,
        typer.Option(help='A prompt a line, or JSON lines with "prompt".', exists=True),
    ],
    draft: Annotated[str | None, typer.Option("--draft", "-d", help="Draft model.")] = None,
    samples: Annotated[int, typer.Option(min=2, help="Answers to each prompt, each way.")] = 200,
    tokens: Annotated[
        int | None, typer.Option("--tokens", "-n", help="Tokens a sample.  [draft length + 2]")
    ] = None,
    temperature: common.Temperature = 1.0,
    top_p: common.TopP = 1.0,
    top_k: common.TopK = 0,
    min_p: common.MinP = 0.0,
    num_drafts: common.NumDrafts = 3,
    draft_length: common.DraftLength = 3,
    batch: opt.Batch = 16,
    alpha: opt.Alpha = 0.001,
    seed: opt.Seed = 0,
    workers: opt.Workers = 1,
    python: opt.Python = None,
    base_url: opt.BaseUrl = None,
    model: opt.ModelName = None,
    command: opt.Command = None,
    baseline_url: Annotated[
        str | None, typer.Option(help="For openai: the server without speculation.")
    ] = None,
    baseline_command: Annotated[
        str | None, typer.Option(help="For command: the program without speculation.")
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Compare an engine with itself, speculation on against off, on your own models and prompts.

    Their exact law cannot be had, so two samples are tested against each other. Exit code 0: the
    same, 1: different, 3: undecided. Models run in float32.
    """
    from transformers import AutoTokenizer

    from multidraft.audit.blackbox import check_num_tokens
    from multidraft.audit.onoff import compare_on_off, speculation_off
    from multidraft.audit.samplers import open_sampler
    from multidraft.audit.setting import Setting
    from multidraft.cli.audit_show import comparing, on_off_to_dict, print_on_off
    from multidraft.models.store import resolve

    off_engine = speculation_off(engine)
    num_tokens = draft_length + 2 if tokens is None else tokens
    check_num_tokens(num_tokens, draft_length)
    for name, value, other, baseline in (
        ("openai", base_url, "--baseline-url", baseline_url),
        ("command", command, "--baseline-command", baseline_command),
    ):
        if (engine == name) != (baseline is not None) or (engine == name and value is None):
            raise InvalidInput(
                f"The engine {name} needs {other} beside its own, and no other engine takes it."
            )
    texts = read_prompts(prompts)
    setting = Setting(
        target=resolve(target),
        draft=resolve(draft) if draft else None,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        num_tokens=num_tokens,
        num_drafts=num_drafts,
        draft_length=draft_length,
        batch=batch,
    )
    tokenizer: Any = AutoTokenizer.from_pretrained(setting.target)
    pool: dict[str, Any] = {"workers": None if engine == "openai" else workers}
    pool |= {"python": python, "model": model}
    on = open_sampler(engine, setting, base_url=base_url, command=command, **pool)
    off = open_sampler(off_engine, setting, base_url=baseline_url, command=baseline_command, **pool)

    def encode(text: str) -> Tokens:
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])

    with comparing(engine) as progress:
        report = compare_on_off(
            on,
            off,
            [(tuple(tokenizer(text)["input_ids"]), text) for text in texts],
            samples,
            num_tokens,
            encode,
            2 * batch * (workers or 1),
            alpha,
            seed,
            progress,
        )
    if as_json:
        print(json.dumps(on_off_to_dict(report)))
    else:
        print_on_off(report, tokenizer.decode)
    raise typer.Exit(_EXIT_CODES[report.verdict])


def read_prompts(file: Path) -> list[str]:
    """Prompts of a text file, one a line, or of JSON lines.

    Raises:
        InvalidInput: a file that cannot be read, holds none, or a line without "prompt".
    """
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInput(f"Cannot read the prompts from {file}: {reason}.") from None
    if not lines:
        raise InvalidInput(f"{file} holds no prompt; write one a line.")
    if not file.name.endswith((".jsonl", ".json")):
        return lines
    prompts = []
    for number, line in enumerate(lines, 1):
        try:
            prompt = json.loads(line)["prompt"]
        except (ValueError, KeyError, TypeError):
            prompt = None
        if not isinstance(prompt, str) or not prompt:
            raise InvalidInput(f'{file}, line {number}: not a JSON object with text in "prompt".')
        prompts.append(prompt)
    return prompts
