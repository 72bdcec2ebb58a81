"""transformers' own ``generate``: plain, with an assistant model, or with prompt lookup."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

from multidraft.audit.samplers.answers import checked, split
from multidraft.audit.setting import Answer, Request, Setting
from multidraft.errors import AuditError, InvalidInput
from multidraft.models.generation import assistant_options, sampling_options

_GenerationConfig: Any = transformers.GenerationConfig  # without types

#: The default first.
MODES = ("plain", "assisted", "lookup")


class TransformersSampler:
    """Samples with ``generate(do_sample=True)`` in float32, in this process.

    ``plain`` decodes prompts of equal length together. All rows of such a batch draw from the one
    global generator that ``generate`` knows, seeded by the batch's first request. ``assisted`` and
    ``lookup`` take one request at a time (``generate`` allows no more), each with its own seed.
    torch's CPU generator takes 32 bits of a seed.

    Raises:
        InvalidInput: an unknown mode, or ``assisted`` without a draft.
        AuditError: transformers cannot load a model.
    """

    def __init__(self, setting: Setting, mode: str = "plain"):
        if mode not in MODES:
            raise InvalidInput(f"Unknown mode {mode!r}; choose one of {', '.join(MODES)}.")
        self.name = f"transformers {transformers.__version__}, {mode}"
        self._setting = setting
        self._model = _load(setting.target)
        self._rows = setting.batch if mode == "plain" else 1
        self._options: dict[str, Any] = {}
        drafting = {}
        if mode != "plain":
            self.name += f", L {setting.draft_length}"
        if mode == "assisted":
            if setting.draft is None:
                raise InvalidInput("The mode 'assisted' needs a draft model.")
            self._options["assistant_model"] = _load_assistant(setting.draft, setting.draft_length)
        elif mode == "lookup":
            drafting["prompt_lookup_num_tokens"] = setting.draft_length
        self._config = _generation_config(setting, **drafting)

    def __enter__(self) -> TransformersSampler:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def sample(self, requests: Sequence[Request]) -> list[Answer]:
        """See `Sampler`."""
        answers: list[Answer] = []
        for batch in split(requests, self._setting.batch):
            by_length: dict[int, list[int]] = defaultdict(list)
            for place, request in enumerate(batch):
                by_length[len(request.tokens)].append(place)
            found: dict[int, Answer] = {}
            for places in by_length.values():
                for rows in split(places, self._rows):
                    found.update(zip(rows, self._generate([batch[i] for i in rows]), strict=True))
            answers += [found[place] for place in range(len(batch))]
        return answers

    def _generate(self, requests: Sequence[Request]) -> list[Answer]:
        """Answers to prompts of equal length."""
        prompts = torch.tensor([request.tokens for request in requests], device=self._model.device)
        with torch.random.fork_rng():  # the caller's own random numbers are not ours to change
            torch.manual_seed(requests[0].seed)
            try:
                rows = self._model.generate(
                    prompts,
                    attention_mask=torch.ones_like(prompts),
                    generation_config=self._config,
                    **self._options,
                )
            except (ValueError, RuntimeError, IndexError) as error:
                raise AuditError(f"generate failed: {' '.join(str(error).split())}") from error
        new = rows[:, prompts.shape[1] :].tolist()
        return [checked(tokens, self._setting) for tokens in new]


def _generation_config(setting: Setting, **drafting: int) -> Any:
    return _GenerationConfig(
        **sampling_options(setting.params),
        pad_token_id=0,  # never used: there is no end token, and the rows are of equal length
        **drafting,
    )


def _load(folder: Path) -> Any:
    """A model whose folder says nothing of how to sample, nor of an end token."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader: Any = AutoModelForCausalLM
    try:
        model = loader.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise AuditError(f"transformers cannot load the model in {folder}: {reason}") from error
    model.generation_config = _GenerationConfig()
    return model


def _load_assistant(folder: Path, draft_length: int) -> Any:
    model = _load(folder)
    model.generation_config = _GenerationConfig(**assistant_options(draft_length))
    return model
