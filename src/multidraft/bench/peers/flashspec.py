"""flashspec's engine, on transformers' models in this process; imported only where installed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import flashspec
import torch
from flashspec.bandit import UCB1Selector
from flashspec.engine import ArmSpec, HuggingFaceDrafter, TargetModel

from multidraft.bench.outcome import Outcome, Stopwatch
from multidraft.bench.peers.models import PeerModels
from multidraft.bench.peers.one_by_one import OneByOne
from multidraft.models.load import quiet
from multidraft.sampling import SamplingParams


class FlashspecModels:
    """The pair in flashspec's wrappers, which keep what they compile."""

    def __init__(self, models: PeerModels):
        self.reference = models.reference
        device, dtype = models.reference.device, models.reference.dtype
        self.target = TargetModel("target", device, dtype, model=models.target)
        self.draft = HuggingFaceDrafter("draft", device, dtype, model=models.draft)


class FlashspecContestant(OneByOne):
    """flashspec in a mode: "auto" is its default, "draft" drafts L tokens from the draft model."""

    def __init__(self, mode: str, models: FlashspecModels, draft_length: int):
        super().__init__(models.reference)
        self._models = models
        self._arms = None if mode == "auto" else [ArmSpec(drafter=0, gamma=draft_length)]

    def generate(
        self, prompt: list[int], params: SamplingParams, interrupted: Callable[[], bool]
    ) -> Outcome | None:
        """See `OneByOne`."""
        self._models.draft.set_temperature(params.temperature)
        device = self.reference.device
        tokens = torch.tensor([prompt], device=device)
        started = time.perf_counter()
        watch = _Watch(Stopwatch(started), interrupted)
        try:
            with quiet(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it calls transformers as older versions wanted
                engine = self._engine(params, watch)
                result = engine.generate(tokens, max_new_tokens=params.max_tokens)
        except _StoppedError:
            return None
        except (ValueError, RuntimeError, IndexError) as error:
            return Outcome(error=f"flashspec failed: {' '.join(str(error).split())}")
        new = result.output_ids[0, : result.n_tokens_generated].tolist()
        total = time.perf_counter() - started
        return self.outcome(new, watch.clock, total)

    def _engine(self, params: SamplingParams, watch: _Watch) -> Any:
        """An engine has one seed and temperature; the models in it are not loaded anew."""
        config = flashspec.FlashSpecConfig(
            device=str(self.reference.device),
            eos_token_ids=tuple(sorted(self.reference.eos_token_ids)),
            sampling=flashspec.SamplingConfig(
                temperature=params.temperature, top_p=params.top_p, seed=params.seed
            ),
        )
        return flashspec.SpeculativeEngine(
            config, [self._models.draft], self._models.target, watch, self._arms
        )


class _StoppedError(Exception):
    """The run was interrupted."""


class _Watch(UCB1Selector):  # type: ignore[misc]
    """Asked before each round which of the drafters to take, and told after it how it went: the one
    hook that tells when tokens came. There is one drafter to take."""

    def __init__(self, clock: Stopwatch, interrupted: Callable[[], bool]):
        super().__init__(n_arms=1)
        self.clock = clock
        self._interrupted = interrupted

    def select(self) -> int:
        if self._interrupted():
            raise _StoppedError
        return 0

    def update(self, arm: int, accepted: int, reward: float | None = None) -> None:
        self.clock.came(time.perf_counter())
