"""This engine, watched round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch

from multidraft.bench.methods import AUTO, Method
from multidraft.bench.outcome import Contestant, Outcome, Stopwatch, refusal
from multidraft.draft.named import widest
from multidraft.engine import Decoder, Progress
from multidraft.engine import Sequence as Running
from multidraft.engine.decoder import DEFAULT_VERIFIER
from multidraft.errors import MultidraftError
from multidraft.models import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.verify import get_verifier

_WARM_UP_TOKENS = 8


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
        if method.name == AUTO:
            assert draft is not None
            shape = get_verifier(DEFAULT_VERIFIER).drafts
            self._decoder = Decoder(target, widest(draft, shape), controller="auto")
        elif method.proposer is None:
            self._decoder = Decoder(target)
        else:
            drafter = method.proposer.make(draft, num_drafts, draft_length)
            self._decoder = Decoder(target, drafter, method.verifier)

    def decode(
        self,
        prompts: Sequence[list[int]],
        params: Sequence[SamplingParams],
        interrupted: Callable[[], bool],
    ) -> list[Outcome] | None:
        """See `Contestant`."""
        outcomes: list[Outcome | None] = [
            refusal(self._decoder, prompt, p) for prompt, p in zip(prompts, params, strict=True)
        ]
        good = [i for i, outcome in enumerate(outcomes) if outcome is None]
        decoded = self._decode([prompts[i] for i in good], [params[i] for i in good], interrupted)
        if decoded is None:
            return None
        for i, outcome in zip(good, decoded, strict=True):
            outcomes[i] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    @contextmanager
    def untaught(self) -> Iterator[None]:
        """While it is open, a controller is not asked, and does not learn of what is decoded."""
        engine = self._decoder.engine
        controller, engine.controller = engine.controller, None
        try:
            yield
        finally:
            engine.controller = controller

    def _decode(
        self,
        prompts: Sequence[list[int]],
        params: Sequence[SamplingParams],
        interrupted: Callable[[], bool],
    ) -> list[Outcome] | None:
        try:
            return self._together(prompts, params, interrupted)
        except (MultidraftError, torch.OutOfMemoryError) as error:
            failed = [Outcome(error=" ".join(str(error).split())) for _ in prompts]
            if len(prompts) == 1 or isinstance(error, torch.OutOfMemoryError):
                return failed  # the batch's fault: smaller ones would be another cell's
        # One of the batch did that; alone, each shows whether it was the one.
        outcomes: list[Outcome] = []
        for prompt, p in zip(prompts, params, strict=True):
            alone = self._decode([prompt], [p], interrupted)
            if alone is None:
                return None
            outcomes += alone
        good = [i for i, outcome in enumerate(outcomes) if not outcome.error]
        if len(good) == len(prompts):
            return failed  # together alone
        # Those decoded alone have taken the time of one.
        again = self._decode([prompts[i] for i in good], [params[i] for i in good], interrupted)
        if again is None:
            return None
        for i, outcome in zip(good, again, strict=True):
            outcomes[i] = outcome
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
                    watches[each.sequence].round(each, now)
        finally:
            for sequence in watches:
                engine.cancel(sequence)
        # What the engine does not count, such as setting up a request, is part of the time too.
        total = time.perf_counter() - started
        rest = total - sum(sequence.stats.total_seconds for sequence in watches)
        return [watch.outcome(seq, rest / len(watches)) for seq, watch in watches.items()]


def warm_up(
    contestant: Contestant,
    prompts: Sequence[list[int]],
    params: Sequence[SamplingParams],
    interrupted: Callable[[], bool],
) -> list[Outcome] | None:
    """Decode a few tokens that do not count: a method's first rounds pay for memory and kernels.

    Answers that short would teach a controller to expect short ones, so it does not hear of them.
    Its costs were measured when the contestant was made.
    """
    short = [replace(p, max_tokens=min(_WARM_UP_TOKENS, p.max_tokens)) for p in params]
    with contestant.untaught() if isinstance(contestant, EngineContestant) else nullcontext():
        return contestant.decode(prompts, short, interrupted)


class _Watch:
    """What is noted of one sequence."""

    def __init__(self, started: float):
        self._clock = Stopwatch(started)
        self._rounds: list[list[int]] = []
        self._calls: list[list[int]] = []
        self._accepted = 0

    def round(self, progress: Progress, now: float) -> None:
        accepted = progress.sequence.stats.accepted - self._accepted
        self._accepted = progress.sequence.stats.accepted
        self._rounds.append([accepted, progress.depth, len(progress.token_ids)])
        self._calls.append([progress.positions, *progress.draft_rows])
        self._clock.came(now)

    def outcome(self, sequence: Running, rest: float) -> Outcome:
        result = sequence.result()
        seconds = dict(result.stats.seconds)
        seconds["other"] += rest
        return Outcome(
            tokens=len(result.token_ids),
            rounds=self._rounds,
            calls=self._calls,
            seconds={phase: round(value, 6) for phase, value in seconds.items()},
            first_token=self._clock.first,
            gaps=self._clock.gaps,
            finish_reason=str(result.finish_reason),
            text=result.text or "",
        )
