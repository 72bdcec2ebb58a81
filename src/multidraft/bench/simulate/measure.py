"""The cost table of a pair on this machine, measured."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import median

from multidraft.bench.simulate.costs import CostTable
from multidraft.bench.simulate.rounds import Rounds
from multidraft.chance import RandomChance
from multidraft.engine.clock import Clock
from multidraft.engine.control.curve import Curve
from multidraft.errors import InvalidInput
from multidraft.models import PREFIX, Extension, LanguageModel
from multidraft.sampling import SamplingParams, Warper

_CACHED = 200  # tokens before the nodes of a timed call
_COUNTS = (1, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_PROMPT_LENGTHS = (32, 128, 384)
_IN_A_ROW = 4  # calls of the same size, as in decoding: the first after others takes longer


def measure_costs(
    target: LanguageModel,
    draft: LanguageModel,
    verifiers: Sequence[str],
    num_drafts: int,
    draft_lengths: Sequence[int],
    params: SamplingParams,
    repetitions: int,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> CostTable:
    """Time the parts of a round; medians, in seconds.

    Calls of the models are timed alone, with 200 tokens cached; verification and what is left in
    whole generations with independent drafts. All take turns, so that a machine that gets busier
    does so for all alike; a first turn is not counted.

    Args:
        target, draft: the pair, each with two free slots.
        verifiers: names.
        num_drafts, draft_lengths: K and L of the runs to be predicted.
        params: how they sample.
        repetitions: turns that count.
        told: of turns done, and of all there are.

    Raises:
        InvalidInput: see `Rounds`, or models with too short a context.
    """
    most = num_drafts * max(draft_lengths) + 1
    room = min(target.max_length, draft.max_length)
    if _CACHED + most > room:
        raise InvalidInput(
            f"Measuring takes a context of {_CACHED + most} tokens, but there are only {room}; "
            "choose models with more, or fewer drafts."
        )
    timers = {"target": _Timer(target, None), "draft": _Timer(draft, params)}
    rows = {"target": _counts(most), "draft": _counts(max(num_drafts, most // 2))}
    prompts = [length for length in _PROMPT_LENGTHS if length <= room]
    rounds = Rounds(target, draft, verifiers, num_drafts, draft_lengths, params)

    times: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(repetitions + 1):
        told(turn, repetitions + 1)
        if turn == 1:
            times.clear()
        rounds.turn(seed=turn, counts=turn > 0)
        for name, timer in timers.items():
            for count in rows[name]:
                times[name][count] += [timer.call(count) for _ in range(_IN_A_ROW)]
            for length in prompts:
                times[f"prefill_{name}"][length].append(timer.prefill(length))
    for timer in timers.values():
        timer.close()
    curves = {
        name: Curve.of({count: round(median(seconds), 6) for count, seconds in by_count.items()})
        for name, by_count in times.items()
    }
    return CostTable(
        curves["target"],
        curves["draft"],
        rounds.curves("verify"),
        rounds.curves("other"),
        curves["prefill_target"],
        curves["prefill_draft"],
    )


def _counts(most: int) -> list[int]:
    return [*itertools.takewhile(lambda count: count < most, _COUNTS), most]


class _Timer:
    """Times single calls of a model; given parameters, with a draw from the law at each node."""

    def __init__(self, model: LanguageModel, params: SamplingParams | None):
        self._model = model
        self._warper = None
        if params is not None:
            self._warper = Warper(params, (), model.vocab_size, model.device)
        self._chance = RandomChance((0,))
        self._slot = model.open()
        model.prefill(self._slot, self._tokens(_CACHED))

    def call(self, nodes: int) -> float:
        """Seconds of scoring siblings."""
        clock = Clock(self._model.device)
        (rows,) = self._model.extend([Extension(self._slot, self._tokens(nodes), [PREFIX] * nodes)])
        if self._warper is not None:
            for row in rows:
                self._chance.draw(self._warper.law(row, ()))
        seconds = clock.lap()
        self._model.commit(self._slot, [])
        return seconds

    def prefill(self, length: int) -> float:
        """Seconds of reading a prompt."""
        slot = self._model.open()
        clock = Clock(self._model.device)
        self._model.prefill(slot, self._tokens(length))
        seconds = clock.lap()
        self._model.close(slot)
        return seconds

    def close(self) -> None:
        self._model.close(self._slot)

    def _tokens(self, count: int) -> list[int]:
        return [(100 + 7 * i) % self._model.vocab_size for i in range(count)]
