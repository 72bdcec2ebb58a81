"""Engines as the audit sees them, by name."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence

from multidraft.audit.samplers import decoder_sampler, transformers_sampler
from multidraft.audit.samplers.decoder_sampler import PLAIN, DecoderSampler, MultidraftSampler
from multidraft.audit.samplers.openai_sampler import OpenAISampler
from multidraft.audit.samplers.pool import ProcessPool
from multidraft.audit.samplers.protocol import setting_to_json
from multidraft.audit.samplers.transformers_sampler import TransformersSampler
from multidraft.audit.setting import Sampler, Setting
from multidraft.errors import InvalidInput
from multidraft.hosted import VLLM_WORKER

#: Every engine and its modes, the default first. vLLM's are its methods of drafting, and how it
#: samples drafts from a model (its own default is greedy).
ENGINES: dict[str, tuple[str, ...]] = {
    "multidraft": decoder_sampler.MODES,
    "transformers": transformers_sampler.MODES,
    "vllm": ("plain", "draft_model-probabilistic", "draft_model-greedy", "ngram"),
    "openai": (),
    "command": (),
}
_OPTIONS = {
    "multidraft": {"workers"},
    "transformers": {"workers"},
    "vllm": {"workers", "python"},
    "openai": {"base_url", "model"},
    "command": {"workers", "command"},
}
_NEEDED = {"openai": ("base_url", "model"), "command": ("command",)}
#: The most positions of one sequence: an audit needs few, prompts of one's own a little more.
_VLLM_CONTEXT = 2048
_WITHOUT_DRAFT = {PLAIN, "plain", "ngram"}


def open_sampler(
    engine: str,
    setting: Setting,
    *,
    workers: int | None = None,
    python: str | None = None,
    base_url: str | None = None,
    model: str | None = None,
    command: str | None = None,
) -> Sampler:
    """An engine to audit. Nothing is started before the sampler is entered.

    Args:
        engine: ``NAME`` or ``NAME:MODE``, see `ENGINES`.
        setting: models, sampling and drafting.
        workers: processes that share the work; one when None. Not for ``openai``.
        python: for ``vllm``, the Python of the environment it is installed in; this one when None.
        base_url, model: for ``openai``, the server and the name it knows the target by.
        command: for ``command``, a program that speaks the `protocol`, and its arguments, in which
            {target}, {draft} and {draft_length} stand for those of the setting.

    Raises:
        InvalidInput: no such engine or mode, an option that is missing or that it does not take,
            or no draft for one that needs it.
    """
    name, _, mode = engine.partition(":")
    if name not in ENGINES:
        raise InvalidInput(f"Unknown engine {name!r}; choose one of {', '.join(ENGINES)}.")
    if mode and mode not in ENGINES[name]:
        modes = ", ".join(ENGINES[name]) or "none; leave it out"
        raise InvalidInput(f"Unknown mode {mode!r} of {name}; its modes are: {modes}.")
    options = {
        "workers": workers,
        "python": python,
        "base_url": base_url,
        "model": model,
        "command": command,
    }
    _check_options(name, {key for key, value in options.items() if value is not None})
    count = 1 if workers is None else workers
    if count < 1:
        raise InvalidInput(f"The number of workers must be at least 1, not {workers}.")
    if base_url is not None and model is not None:
        return OpenAISampler(setting, base_url, model)
    if command is not None:
        parts = _split(command, setting)
        return ProcessPool(f"command {command}", [parts] * count, setting, {}, False)
    mode = mode or ENGINES[name][0]
    if setting.draft is None and mode not in _WITHOUT_DRAFT and not mode.startswith("lookup"):
        raise InvalidInput(f"{name}:{mode} needs a draft model.")
    if name == "vllm":
        commands = _vllm_commands(mode, setting, python or sys.executable, count)
    else:
        module = [sys.executable, "-m", f"{__name__}.worker"]
        commands = [[*module, name, mode, setting_to_json(setting)]] * count
    # Threads of several processes would only get in each other's way.
    environment = {"OMP_NUM_THREADS": "1"} if count > 1 else {}
    return ProcessPool(f"{name}:{mode}", commands, setting, environment, True)


def _check_options(name: str, given: set[str]) -> None:
    for option in _NEEDED.get(name, ()):
        if option not in given:
            raise InvalidInput(f"The engine {name} needs {option}.")
    for option in sorted(given - _OPTIONS[name]):
        raise InvalidInput(f"The engine {name} takes no {option}; leave it out.")


def _split(command: str, setting: Setting) -> list[str]:
    try:
        parts = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"The command {command!r} cannot be read: {error}.") from error
    if not parts:
        raise InvalidInput("The command is empty; give a program and its arguments.")
    for name in ("target", "draft", "draft_length"):
        parts = [part.replace(f"{{{name}}}", str(getattr(setting, name))) for part in parts]
    return parts


def _vllm_commands(mode: str, setting: Setting, python: str, workers: int) -> list[Sequence[str]]:
    options = {
        "target": str(setting.target),
        "draft": str(setting.draft),
        "mode": mode,
        "draft_length": setting.draft_length,
        "dtype": "float32",
        "context": _VLLM_CONTEXT,
        "cache_bytes": 2**30,
        "batch": setting.batch,
        "timed": False,
    }
    return [[python, str(VLLM_WORKER), json.dumps({**options, "seed": i})] for i in range(workers)]


__all__ = [
    "ENGINES",
    "DecoderSampler",
    "MultidraftSampler",
    "OpenAISampler",
    "ProcessPool",
    "TransformersSampler",
    "open_sampler",
]
