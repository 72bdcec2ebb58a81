"""From a pair and prompts to what was predicted and measured, within a time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from multidraft.bench.records import Record
from multidraft.bench.report.group import Row
from multidraft.bench.tune.choose import promising
from multidraft.bench.tune.contest import Contest
from multidraft.bench.tune.figures import Figures
from multidraft.bench.tune.predict import Prediction, predict
from multidraft.bench.tune.settings import AUTO, KINDS, PLAIN
from multidraft.engine.control.costs import costs_of
from multidraft.models import LanguageModel
from multidraft.sampling import SamplingParams

#: What is recorded for predictions: prompts, within a share of the time.
_RECORDED_PROMPTS, _RECORDED_SHARE = 2, 0.3


@dataclass
class Tuning:
    """What tuning has found so far.

    Attributes:
        predicted: see `predict`.
        chosen: the settings that are measured besides plain decoding and auto.
        figures: of the prompts that every one of them has decoded; None before the first.
        failed: why prompts were left out, by their number.
        given: prompts there were.
    """

    predicted: dict[Row, Prediction] = field(default_factory=dict)
    chosen: list[Row] = field(default_factory=list)
    figures: Figures | None = None
    failed: dict[int, str] = field(default_factory=dict)
    given: int = 0

    @property
    def usable(self) -> int:
        """Prompts to measure on, as far as is known."""
        return self.given - len(self.failed)


class Timer:
    """The time there is.

    Args:
        seconds: from now on.
        interrupted: whether to stop at once.
    """

    def __init__(self, seconds: float, interrupted: Callable[[], bool]):
        self._end = time.monotonic() + seconds
        self._interrupted = interrupted

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def stop(self) -> bool:
        return self._interrupted() or self.left == 0.0


class Tuner:
    """Records a few prompts with long drafts of each kind, predicts shorter ones, and measures what
    is promising, plain decoding and auto side by side, prompt by prompt.

    Args:
        target, draft: the pair, each with a free slot.
        prompts: token ids; the last ones are recorded, the measurement begins with the first.
        params: how to sample, and the most tokens of an answer.
        timer: bounds it; a prompt that is not decoded by all settings by then is left out.
        told: of what is being done, and about how many seconds are left.
    """

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel,
        prompts: Sequence[list[int]],
        params: SamplingParams,
        timer: Timer,
        told: Callable[[str, float], None],
    ):
        self._target, self._draft = target, draft
        self._prompts, self._params = prompts, params
        self._timer, self._told = timer, told
        self._found = Tuning(given=len(prompts))

    def run(self) -> Tuning:
        """All of it, or what was done when the time was over.

        Raises:
            InvalidInput: the models do not fit each other.
        """
        found, numbers = self._found, range(len(self._prompts))
        self._told("Measuring what calls cost", self._timer.left)
        costs = costs_of(self._target, self._draft)
        recorded: dict[Row, list[Record]] = defaultdict(list)
        reserve = (1.0 - _RECORDED_SHARE) * self._timer.left
        few = list(reversed(numbers))
        for record in self._decode("Recording", [PLAIN, *KINDS], few, _RECORDED_PROMPTS, reserve):
            cell = record.cell
            recorded[Row(cell.method, cell.num_drafts, cell.draft_length)].append(record)
        if recorded:
            found.predicted = predict(recorded, costs, self._params.max_tokens)
            found.chosen = promising(found.predicted)
        if recorded and not self._timer.stop():
            rows = [PLAIN, AUTO, *found.chosen]
            records = self._decode("Measuring", rows, numbers, len(numbers), 0.0)
            if records:
                found.figures = Figures(records, self._params.max_tokens)
        return found

    def _decode(
        self, what: str, rows: Sequence[Row], numbers: Iterable[int], most: int, reserve: float
    ) -> list[Record]:
        """Records of every setting, of up to ``most`` prompts, each of them decoded by all. Leaves
        ``reserve`` seconds, where the first prompt does."""
        contest = Contest(self._target, self._draft, rows, self._params)
        timer, records = self._timer, list[Record]()
        longest, done = 0.0, 0
        for number in numbers:
            begun = timer.left
            if done == most or (done and begun - longest < reserve):
                break
            left = min(begun, reserve + longest * (most - done)) if done else begun
            failed = self._found.failed
            if number in failed:
                continue
            told = f"{what} on prompt {number + 1}"
            decoded = contest.decode(
                number,
                self._prompts[number],
                timer.stop,
                lambda row, told=told, left=left: self._told(f"{told}: {row}", left),  # type: ignore[misc]
            )
            if decoded is None:
                break
            if decoded[-1].error:
                failed[number] = decoded[-1].error
                continue
            records += decoded
            longest, done = max(longest, begun - timer.left), done + 1
        return records
