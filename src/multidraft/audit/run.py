"""The audit itself: sample, look, stop early on a clear failure, else go on to the wanted power.

Group-sequential testing by alpha spending (Lan and DeMets 1983; the power family of Kim and DeMets
1987): of the error rate ``alpha`` the share t² is spent by the time a share t of the samples is in.
What a look spends is divided among its tests (Bonferroni), so a lossless engine is called BIASED
with probability ``alpha`` at most, whatever the tests have to do with each other.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from multidraft.audit.gtest import (
    Outcome,
    detectable,
    g_test,
    rare_detectable,
    rare_test,
    variation,
)
from multidraft.audit.law import ExactLaw, Tokens
from multidraft.audit.report import Cell, Heard, Plan, Report, Verdict
from multidraft.audit.setting import Answer, Request, Sampler, Setting
from multidraft.audit.tables import Cells, Table
from multidraft.errors import AuditError, InvalidInput

# Shares of the samples after which the tests are made.
LOOKS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
# Of what a look spends, the share of the test of all tokens together; the others share the rest.
_JOINT_SHARE = 0.5
_FEWEST = 200
_MOST = 10_000_000
#: Samples where the law is a point mass and any other token is seen at once.
_POINT_MASS = 512


def audit(
    sampler: Sampler,
    setting: Setting,
    laws: Sequence[ExactLaw],
    plan: Plan,
    text_of: Callable[[Tokens], str],
    tokens_of: Callable[[str], Tokens],
    chunk: int,
    progress: Callable[[Heard], None] = lambda heard: None,
) -> Report:
    """Audit an engine against the exact law.

    Args:
        sampler: the engine, entered.
        setting: what it runs.
        laws: the exact law after each prompt; samples are shared out among the prompts in turn.
        plan: how much to sample.
        text_of, tokens_of: the test models' one-character-per-token text.
        chunk: requests handed over at once.
        progress: called after each chunk. Ctrl-C stops the sampling, not the audit: what was
            sampled is tested.

    Raises:
        AuditError: the engine failed, or its answers are not ``num_tokens`` tokens long.
    """
    return _Audit(sampler, setting, laws, plan, text_of, tokens_of, chunk, progress).run()


def samples_for(cells: Cells, plan: Plan) -> int:
    """The samples with which ``plan.detect`` is found with probability 0.99."""
    if cells.are_point_masses:
        return max(_POINT_MASS, math.ceil(math.log(0.01) / math.log1p(-plan.detect)))
    low, high = _FEWEST, _FEWEST
    while _detectable(cells, high, plan.alpha) > plan.detect:
        low, high = high, 2 * high
        if high > _MOST:
            raise InvalidInput(
                f"A bias of {plan.detect:g} needs more than {_MOST:,} samples; ask for a larger "
                "one, fewer tokens or a lower temperature."
            )
    while high > 1.05 * low:
        middle = math.ceil(math.sqrt(low * high))
        if _detectable(cells, middle, plan.alpha) > plan.detect:
            low = middle
        else:
            high = middle
    return high


def _detectable(cells: Cells, samples: int, alpha: float) -> float:
    """At the last look, with what is then left to spend."""
    return _least_found(cells, cells.joint(samples), samples, alpha * (1 - LOOKS[-2] ** 2))


def _least_found(cells: Cells, joint: Table, samples: int, level: float) -> float:
    """The total variation that a look which spends ``level`` finds with probability 0.99."""
    if cells.are_point_masses:
        return detectable(0, samples, level)
    found = detectable(joint.degrees, samples, level * _JOINT_SHARE) if joint.degrees else 0.0
    if joint.rare.any():
        # A bias that moves less than this to the rare cells shows among the others but for that.
        others = 2 * cells.num_tokens
        found += rare_detectable(joint.rare_p, samples, level * (1 - _JOINT_SHARE) / others)
    return min(found, 1.0) or 1.0  # one category: nothing is found


class _Audit:
    def __init__(
        self,
        sampler: Sampler,
        setting: Setting,
        laws: Sequence[ExactLaw],
        plan: Plan,
        text_of: Callable[[Tokens], str],
        tokens_of: Callable[[str], Tokens],
        chunk: int,
        progress: Callable[[Heard], None],
    ):
        self._sampler = sampler
        self._setting = setting
        self._plan = plan
        self._text_of = text_of
        self._tokens_of = tokens_of
        self._chunk = chunk
        self._progress = progress
        self._cells = Cells(laws)
        self._planned = samples_for(self._cells, plan)
        self._vocab_size = len(next(iter(laws[0].next_law.values())))
        self._halves = np.zeros((2, len(self._cells)), dtype=np.int64)
        self._excluded: list[Counter[Tokens]] = [Counter(), Counter()]
        self._samples = 0
        self._interrupted = False
        self._spent = 0.0
        self._level = plan.alpha
        self._p_value = 1.0
        self._outcomes: list[Outcome] = []

    def run(self) -> Report:
        started = time.monotonic()
        for look in LOOKS:
            complete = self._sample_to(math.ceil(look * self._planned), started)
            self._look()
            if not complete or any(self._excluded) or self._p_value <= self._plan.alpha:
                break
        return self._report(time.monotonic() - started)

    def _sample_to(self, wanted: int, started: float) -> bool:
        """Sample until ``wanted`` are in; False if time ran out or the user stopped."""
        limit = self._plan.max_seconds
        try:
            while self._samples < wanted and not any(self._excluded):
                self._take(min(self._chunk, wanted - self._samples))
                seconds = time.monotonic() - started
                self._progress(Heard(self._samples, self._planned, seconds))
                if limit is not None and seconds > limit and self._samples < self._planned:
                    return False
        except KeyboardInterrupt:
            self._interrupted = True
            return False
        return True

    def _take(self, count: int) -> None:
        laws = self._cells.laws
        numbers = range(self._samples, self._samples + count)
        requests = []
        for number in numbers:
            tokens = laws[number % len(laws)].prompt
            seed = self._plan.seed * 1_000_003 + number
            requests.append(Request(tokens, self._text_of(tokens), seed))
        answers = self._sampler.sample(requests)
        if len(answers) != count:
            raise AuditError(f"{self._sampler.name}: {len(answers)} answers to {count} requests.")
        read = [self._read(answer) for answer in answers]
        for number, tokens in zip(numbers, read, strict=True):
            prompt = number % len(laws)
            # Halves by turns within each prompt: they choose and check in `variation`.
            half = (prompt + number // len(laws)) % 2
            cell = self._cells.of(prompt, tokens)
            if cell < 0:
                self._excluded[half][tokens] += 1
            else:
                self._halves[half, cell] += 1
        self._samples += count

    def _read(self, answer: Answer) -> Tokens:
        try:
            tokens = self._tokens_of(answer) if isinstance(answer, str) else answer
        except InvalidInput as error:
            raise AuditError(f"{self._sampler.name}: {error}") from error
        if len(tokens) != self._setting.num_tokens:
            raise AuditError(
                f"{self._sampler.name}: an answer of {len(tokens)} tokens where "
                f"{self._setting.num_tokens} were asked for: {answer!r}."
            )
        if not all(0 <= token < self._vocab_size for token in tokens):
            raise AuditError(
                f"{self._sampler.name}: an answer with a token that is none of the "
                f"{self._vocab_size} of the model: {answer!r}."
            )
        return tokens

    def _look(self) -> None:
        """Make all tests, and spend what this share of the samples allows."""
        share = min(1.0, self._samples / self._planned)
        level = self._plan.alpha * share**2 - self._spent
        if level <= 0 or self._samples == 0:
            return
        self._spent += level
        self._level = level
        joint, others = self._tables()
        counts = self._halves.sum(0)
        self._outcomes = [g_test(table, counts) for table in (joint, *others)]
        if joint.rare.any():
            self._outcomes.append(rare_test(joint, counts))
        number = len(self._outcomes) - 1
        weights = [_JOINT_SHARE, *[(1 - _JOINT_SHARE) / number] * number]
        smallest = min(o.p_value / w for o, w in zip(self._outcomes, weights, strict=True))
        self._p_value = min(self._p_value, smallest * self._plan.alpha / level)

    def _tables(self) -> tuple[Table, list[Table]]:
        cells, samples = self._cells, self._samples
        return cells.joint(samples), cells.marginals(samples) + cells.transitions(samples)

    def _report(self, seconds: float) -> Report:
        plan, samples = self._plan, self._samples
        if samples == 0:
            raise KeyboardInterrupt
        joint = self._cells.joint(samples)
        counts = self._halves.sum(0)
        excluded = self._excluded[0] + self._excluded[1]
        verdict: Verdict
        if excluded or self._p_value <= plan.alpha:
            verdict = "BIASED"
        elif samples >= self._planned:
            verdict = "LOSSLESS"
        else:
            verdict = "UNDECIDED"
        return Report(
            engine=self._sampler.name,
            setting=self._setting,
            verdict=verdict,
            p_value=0.0 if excluded else min(1.0, self._p_value),
            alpha=plan.alpha,
            detectable=_least_found(self._cells, joint, samples, self._level),
            variation=variation(joint, self._halves, np.array([c.total() for c in self._excluded])),
            outcomes=tuple(self._outcomes),
            excluded=tuple(excluded.most_common()),
            worst=self._worst(joint, counts),
            samples=samples,
            planned=self._planned,
            seconds=seconds,
            interrupted=self._interrupted,
            cells=self._cells,
            table=joint,
            counts=counts,
        )

    def _worst(self, joint: Table, counts: np.ndarray, show: int = 5) -> tuple[Cell, ...]:
        """Categories of single cells, by their share of the statistic."""
        single = np.bincount(joint.category, minlength=len(joint.q)) == 1
        expected = self._samples / len(self._cells.laws) * joint.q
        observed = joint.observed(counts)
        distance = np.where(single, (observed - expected) ** 2 / expected, -1.0)
        first = np.zeros(len(joint.q), dtype=int)
        first[joint.category] = np.arange(len(joint.category))
        worst = []
        for category in np.argsort(-distance)[:show]:
            if distance[category] < 0:
                break
            prompt, tokens = self._cells.describe(int(first[category]))
            worst.append(
                Cell(
                    self._cells.laws[prompt].prompt,
                    tokens,
                    int(observed[category]),
                    float(expected[category]),
                )
            )
        return tuple(worst)
