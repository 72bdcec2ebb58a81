"""transformers' own ``generate`` on the same models, prompts and sampling parameters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

from multidraft.bench.outcome import Outcome, Stopwatch
from multidraft.engine import Decoder
from multidraft.errors import InvalidInput, ModelUnavailable
from multidraft.models import TransformersModel
from multidraft.models.generation import assistant_options, sampling_options
from multidraft.models.load import quiet
from multidraft.sampling import SamplingParams

_GenerationConfig: Any = transformers.GenerationConfig  # without types
_StoppingCriteria: Any = transformers.StoppingCriteria
_loader: Any = AutoModelForCausalLM


class PeerModels:
    """The pair's models once more, as transformers has them, loaded when first asked for.

    This engine changes the attention and the linear layers of its own, so the two cannot share.

    Args:
        target: the engine's target, whose dtype, device, end tokens and context count here too.
        target_folder, draft_folder: where the models are.
    """

    def __init__(self, target: TransformersModel, target_folder: Path, draft_folder: Path | None):
        self.reference = target
        self._target_folder = target_folder
        self._draft_folder = draft_folder

    @cached_property
    def target(self) -> Any:
        return self._load(self._target_folder)

    @cached_property
    def draft(self) -> Any:
        assert self._draft_folder is not None
        return self._load(self._draft_folder)

    def _load(self, folder: Path) -> Any:
        try:
            with quiet():
                model = _loader.from_pretrained(folder, dtype=self.reference.dtype)
        except (OSError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ModelUnavailable(f"transformers cannot load {folder} ({reason}).") from error
        model = model.to(self.reference.device).eval()
        # Else `generate` fills in what the model's own file says, such as a repetition penalty.
        model.generation_config = _GenerationConfig()
        return model


class TransformersContestant:
    """``generate`` in a mode: "plain", "assisted" by the draft, or prompt "lookup".

    Prompts are decoded one after the other, which is all that two of the modes can do.
    """

    def __init__(self, mode: str, models: PeerModels, draft_length: int):
        self._mode = mode
        self._models = models
        self._draft_length = draft_length
        self._decoder = Decoder(models.reference)  # refuses the same prompts as this engine

    def decode(
        self,
        prompts: Sequence[list[int]],
        params: Sequence[SamplingParams],
        interrupted: Callable[[], bool],
    ) -> list[Outcome] | None:
        """See `Contestant`."""
        outcomes = []
        for prompt, p in zip(prompts, params, strict=True):
            outcome = self._one(prompt, p, interrupted)
            if outcome is None:
                return None
            outcomes.append(outcome)
        return outcomes

    def _one(
        self, prompt: list[int], params: SamplingParams, interrupted: Callable[[], bool]
    ) -> Outcome | None:
        try:
            self._decoder.engine.check(prompt, params)
        except InvalidInput as error:
            return Outcome(error=str(error))
        model, options = self._models.target, self._options(params)
        tokens = torch.tensor([prompt], device=model.device)
        with torch.random.fork_rng():  # the caller's own random numbers are not ours to change
            torch.manual_seed(params.seed or 0)
            started = time.perf_counter()
            watch = _Watch(Stopwatch(started), interrupted, model.device)
            try:
                with quiet():  # the assisted mode warns of how it calls itself
                    rows = model.generate(
                        tokens,
                        attention_mask=torch.ones_like(tokens),
                        stopping_criteria=[watch],
                        **options,
                    )
            except (ValueError, RuntimeError, IndexError) as error:
                return Outcome(error=f"generate failed: {' '.join(str(error).split())}")
            watch.wait()
            total = time.perf_counter() - started
        if interrupted():
            return None
        return self._outcome(rows[0, len(prompt) :].tolist(), watch.clock, total)

    def _options(self, params: SamplingParams) -> dict[str, Any]:
        drafting, assistant = {}, {}
        if self._mode == "lookup":
            drafting["prompt_lookup_num_tokens"] = self._draft_length
        elif self._mode == "assisted":
            draft = self._models.draft
            # Shared by cells, so said every time.
            draft.generation_config = _GenerationConfig(**assistant_options(self._draft_length))
            assistant["assistant_model"] = draft
        ends = sorted(self._models.reference.eos_token_ids)
        config = _GenerationConfig(
            **sampling_options(params),
            **drafting,
            eos_token_id=ends or None,
            pad_token_id=ends[0] if ends else 0,  # never used: there is one row
        )
        return {"generation_config": config, **assistant}

    def _outcome(self, tokens: list[int], clock: Stopwatch, total: float) -> Outcome:
        reference = self._models.reference
        text = ""
        if reference.tokenizer is not None:
            text = reference.tokenizer.decode(tokens, skip_special_tokens=True)
        return Outcome(
            tokens=len(tokens),
            seconds={"draft": 0.0, "target": 0.0, "verify": 0.0, "other": round(total, 6)},
            first_token=clock.first,
            gaps=clock.gaps,
            finish_reason="stop" if tokens[-1] in reference.eos_token_ids else "length",
            text=text,
        )


class _Watch(_StoppingCriteria):  # type: ignore[misc]
    """Asked once a round whether to stop: the one hook that tells when tokens came."""

    def __init__(self, clock: Stopwatch, interrupted: Callable[[], bool], device: torch.device):
        self.clock = clock
        self._interrupted = interrupted
        self._device = device

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self.wait()
        self.clock.came(time.perf_counter())
        return torch.full((len(input_ids),), self._interrupted(), device=input_ids.device)

    def wait(self) -> None:
        """Until the device has done what it was given."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
