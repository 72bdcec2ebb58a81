"""vLLM, in a process of its own environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from multidraft.bench.outcome import Outcome, Stopwatch
from multidraft.bench.peers.one_by_one import OneByOne
from multidraft.bench.peers.vllm_engines import VllmEngines
from multidraft.errors import InvalidInput
from multidraft.models import TransformersModel
from multidraft.sampling import SamplingParams


class VllmContestant(OneByOne):
    """vLLM in a mode of `VllmEngines`. Times are those that its process measures.

    Raises:
        InvalidInput: the models are on a GPU.
    """

    def __init__(
        self, reference: TransformersModel, engines: VllmEngines, mode: str, draft_length: int
    ):
        super().__init__(reference)
        if reference.device.type != "cpu":
            raise InvalidInput(
                "The vllm methods run on the CPU only; leave them out, or give --device cpu."
            )
        self._engines = engines
        self._key = (mode, draft_length)

    def generate(
        self, prompt: list[int], params: SamplingParams, interrupted: Callable[[], bool]
    ) -> Outcome | None:
        """See `OneByOne`."""
        request = {
            "id": 0,
            "prompt_token_ids": prompt,
            "max_tokens": params.max_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k,
            "min_p": params.min_p,
            "seed": params.seed,
            # It knows the end tokens by no tokenizer of its own.
            "ignore_eos": True,
            "stop_token_ids": sorted(self.reference.eos_token_ids),
            "more": 0,
        }
        answer = self._engines.ask(self._key, request, interrupted)
        if answer is None:
            return None
        if "failed" in answer:
            return Outcome(error=f"vLLM failed: {answer['failed']}")
        clock = Stopwatch(0.0)
        for moment in answer["times"]:
            clock.came(moment)
        outcome = self.outcome(answer["token_ids"], clock, answer["seconds"])
        return replace(outcome, peak_memory=answer["peak_memory"])
