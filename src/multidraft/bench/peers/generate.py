"""transformers' own ``generate``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

from multidraft.bench.outcome import Outcome, Stopwatch
from multidraft.bench.peers.models import PeerModels
from multidraft.bench.peers.one_by_one import OneByOne
from multidraft.models.generation import assistant_options, sampling_options
from multidraft.models.load import quiet
from multidraft.sampling import SamplingParams

_GenerationConfig: Any = transformers.GenerationConfig  # without types
_StoppingCriteria: Any = transformers.StoppingCriteria


class TransformersContestant(OneByOne):
    """``generate`` in a mode: "plain", "assisted" by the draft, or prompt "lookup".

    Prompts are decoded one after the other, which is all that two of the modes can do.
    """

    def __init__(self, mode: str, models: PeerModels, draft_length: int):
        super().__init__(models.reference)
        self._mode = mode
        self._target = models.target
        self._draft = models.draft if mode == "assisted" else None
        self._draft_length = draft_length

    def generate(
        self, prompt: list[int], params: SamplingParams, interrupted: Callable[[], bool]
    ) -> Outcome | None:
        """See `OneByOne`."""
        model, options = self._target, self._options(params)
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
        return self.outcome(rows[0, len(prompt) :].tolist(), watch.clock, total)

    def _options(self, params: SamplingParams) -> dict[str, Any]:
        drafting, assistant = {}, {}
        if self._mode == "lookup":
            drafting["prompt_lookup_num_tokens"] = self._draft_length
        elif self._draft is not None:
            # Shared by cells, so said every time.
            self._draft.generation_config = _GenerationConfig(
                **assistant_options(self._draft_length)
            )
            assistant["assistant_model"] = self._draft
        ends = sorted(self.reference.eos_token_ids)
        config = _GenerationConfig(
            **sampling_options(params),
            **drafting,
            eos_token_id=ends or None,
            pad_token_id=ends[0] if ends else 0,  # never used: there is one row
        )
        return {"generation_config": config, **assistant}


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
