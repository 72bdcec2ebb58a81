"""What is asked of an audit, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from multidraft.audit.gtest import Outcome, Variation
from multidraft.audit.law import Tokens
from multidraft.audit.setting import Setting
from multidraft.audit.tables import Cells, Table
from multidraft.errors import InvalidInput

Verdict = Literal["LOSSLESS", "BIASED", "UNDECIDED"]


@dataclass(frozen=True)
class Plan:
    """How much to sample, and how sure to be.

    Attributes:
        detect: the total variation that is to be found with probability 0.99.
        alpha: probability of calling a lossless engine BIASED.
        max_seconds: when to stop all the same; None for never.
        seed: of the requests' own seeds.
    """

    detect: float = 0.03
    alpha: float = 0.001
    max_seconds: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("detect", self.detect), ("alpha", self.alpha)):
            if not 0 < value < 1:
                raise InvalidInput(f"{name} must lie between 0 and 1, not {value!r}.")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise InvalidInput(f"max_seconds must be above 0, not {self.max_seconds!r}.")


@dataclass(frozen=True)
class Cell:
    """Observed against expected count of one category of the joint table, for show."""

    prompt: Tokens
    tokens: Tokens
    observed: int
    expected: float


@dataclass(frozen=True)
class Report:
    """What an audit found.

    Attributes:
        engine: the sampler's name.
        setting: what was audited.
        verdict: "LOSSLESS" (the wanted power was reached and nothing was found), "BIASED", or
            "UNDECIDED" (stopped before).
        p_value: corrected for all tests and looks; BIASED is ``p_value <= alpha``, or an excluded
            token.
        alpha: the promised false-alarm rate.
        detectable: the smallest total variation that this many samples find with probability 0.99.
        variation: estimated total variation over the joint table's categories, with its interval.
        outcomes: the tests of the last look.
        excluded: answers that the law excludes (outside top-k or top-p, or not the greedy token)
            and how often they came.
        worst: joint cells furthest from expectation.
        samples, planned: taken, and needed for the wanted power.
        seconds: time of sampling and testing.
        interrupted: by Ctrl-C.
        table, counts: the joint table and [cells] counts, for plots.
    """

    engine: str
    setting: Setting
    verdict: Verdict
    p_value: float
    alpha: float
    detectable: float
    variation: Variation
    outcomes: tuple[Outcome, ...]
    excluded: tuple[tuple[Tokens, int], ...]
    worst: tuple[Cell, ...]
    samples: int
    planned: int
    seconds: float
    interrupted: bool
    cells: Cells
    table: Table
    counts: np.ndarray


@dataclass(frozen=True)
class Heard:
    """Progress, told after every batch."""

    samples: int
    planned: int
    seconds: float
