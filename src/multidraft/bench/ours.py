"""This engine, watched round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from multidraft.bench.methods import Method
from multidraft.bench.outcome import Outcome, Stopwatch
from multidraft.draft import Drafter, DraftRequest
from multidraft.engine import Decoder
from multidraft.engine import Sequence as Running
from multidraft.errors import InvalidInput, MultidraftError
from multidraft.models import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.tree import DraftTree


class EngineContestant:
    """A method of this engine. Prompts given together are decoded as one batch.

    Args:
        method: its name, parsed.
        target, draft: the models, with a slot for each prompt of a batch.
        num_drafts, draft_length: K and L; not used where the method has none.
    """

    def __init__(
        self,
        method: Method,
        target: LanguageModel,
        draft: LanguageModel | None,
        num_drafts: int,
        draft_length: int,
    ):
        self._drafter: _Watched | None = None
        if method.proposer is None:
            self._decoder = Decoder(target)
        else:
            self._drafter = _Watched(method.proposer.make(draft, num_drafts, draft_length))
            self._decoder = Decoder(target, self._drafter, method.verifier)

    def decode(
        self,
        prompts: Sequence[list[int]],
        params: Sequence[SamplingParams],
        interrupted: Callable[[], bool],
    ) -> list[Outcome] | None:
        """See `Contestant`."""
        outcomes: list[Outcome | None] = [
            self._refusal(prompt, p) for prompt, p in zip(prompts, params, strict=True)
        ]
        good = [i for i, outcome in enumerate(outcomes) if outcome is None]
        decoded = self._decode([prompts[i] for i in good], [params[i] for i in good], interrupted)
        if decoded is None:
            return None
        for i, outcome in zip(good, decoded, strict=True):
            outcomes[i] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    def _refusal(self, prompt: list[int], params: SamplingParams) -> Outcome | None:
        try:
            self._decoder.engine.check(prompt, params)
        except InvalidInput as error:
            return Outcome(error=str(error))
        return None

    def _decode(
        self,
        prompts: Sequence[list[int]],
        params: Sequence[SamplingParams],
        interrupted: Callable[[], bool],
    ) -> list[Outcome] | None:
        try:
            return self._together(prompts, params, interrupted)
        except (MultidraftError, torch.OutOfMemoryError) as error:
            if len(prompts) == 1:
                return [Outcome(error=" ".join(str(error).split()))]
        # One of the batch did that; alone, each shows whether it was the one.
        outcomes = []
        for prompt, p in zip(prompts, params, strict=True):
            alone = self._decode([prompt], [p], interrupted)
            if alone is None:
                return None
            outcomes += alone
        return outcomes

    def _together(
        self,
        prompts: Sequence[list[int]],
        params: Sequence[SamplingParams],
        interrupted: Callable[[], bool],
    ) -> list[Outcome] | None:
        engine = self._decoder.engine
        watches: dict[Running, _Watch] = {}
        started = time.perf_counter()
        try:
            for prompt, p in zip(prompts, params, strict=True):
                watches[self._decoder.submit(prompt, p)] = _Watch(started)
            while engine.busy:
                if interrupted():
                    return None
                progress = engine.step()
                now = time.perf_counter()
                for each in progress:
                    depth = 0
                    if self._drafter is not None:
                        depth = self._drafter.depths.pop(each.sequence.handle)
                    watches[each.sequence].round(each.sequence, depth, len(each.token_ids), now)
        finally:
            for sequence in watches:
                engine.cancel(sequence)
        # What the engine does not count, such as setting up a request, is part of the time too.
        total = time.perf_counter() - started
        rest = total - sum(sequence.stats.total_seconds for sequence in watches)
        return [watch.outcome(seq, rest / len(watches)) for seq, watch in watches.items()]


class _Watch:
    """What is noted of one sequence."""

    def __init__(self, started: float):
        self._clock = Stopwatch(started)
        self._rounds: list[list[int]] = []
        self._accepted = 0

    def round(self, sequence: Running, depth: int, emitted: int, now: float) -> None:
        accepted = sequence.stats.accepted - self._accepted
        self._accepted = sequence.stats.accepted
        self._rounds.append([accepted, depth, emitted])
        self._clock.came(now)

    def outcome(self, sequence: Running, rest: float) -> Outcome:
        result = sequence.result()
        seconds = dict(result.stats.seconds)
        seconds["other"] += rest
        return Outcome(
            tokens=len(result.token_ids),
            rounds=self._rounds,
            seconds={phase: round(value, 6) for phase, value in seconds.items()},
            first_token=self._clock.first,
            gaps=self._clock.gaps,
            finish_reason=str(result.finish_reason),
            text=result.text or "",
        )


class _Watched:
    """A drafter whose trees' depths are noted, by handle: the engine does not tell them."""

    def __init__(self, drafter: Drafter):
        self._drafter = drafter
        self.depths: dict[int, int] = {}

    @property
    def drafts(self) -> Literal["one", "iid", "any"]:
        return self._drafter.drafts

    @property
    def draft_length(self) -> int:
        return self._drafter.draft_length

    @property
    def max_nodes(self) -> int:
        return self._drafter.max_nodes

    @property
    def model(self) -> LanguageModel | None:
        return self._drafter.model

    def open(self, prompt: Sequence[int], params: SamplingParams, vocab_size: int) -> int:
        return self._drafter.open(prompt, params, vocab_size)

    def close(self, handle: int) -> None:
        self._drafter.close(handle)

    def propose(self, requests: Sequence[DraftRequest]) -> list[DraftTree]:
        trees = self._drafter.propose(requests)
        for request, tree in zip(requests, trees, strict=True):
            self.depths[request.handle] = tree.depth
        return trees
