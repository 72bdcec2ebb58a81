"""What one decoded prompt gives, and what decodes: this engine with some method, or a peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from multidraft.engine import Decoder
from multidraft.errors import InvalidInput
from multidraft.sampling import SamplingParams


@dataclass
class Outcome:
    """The measured part of a `Record`; see there.

    ``peak_memory`` is that of a peer's own process, 0 where it has none.
    """

    tokens: int = 0
    rounds: list[list[int]] = field(default_factory=list)
    calls: list[list[int]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    first_token: float = 0.0
    gaps: list[float] = field(default_factory=list)
    finish_reason: str = ""
    text: str = ""
    peak_memory: int = 0
    error: str = ""


class Contestant(Protocol):
    """One method, ready to decode."""

    def decode(
        self,
        prompts: Sequence[list[int]],
        params: Sequence[SamplingParams],
        interrupted: Callable[[], bool],
    ) -> list[Outcome] | None:
        """Decode prompts (token ids) together.

        Returns:
            One outcome each, a failed prompt's with its error; None if interrupted.
        """
        ...


def refusal(decoder: Decoder, prompt: list[int], params: SamplingParams) -> Outcome | None:
    """The outcome of a prompt that this engine cannot decode; None of one that it can."""
    try:
        decoder.engine.check(prompt, params)
    except InvalidInput as error:
        return Outcome(error=str(error))
    return None


class Stopwatch:
    """Times of the moments at which tokens came: the first since the start, gaps after it."""

    def __init__(self, started: float):
        self._started = started
        self._times: list[float] = []

    def came(self, now: float) -> None:
        self._times.append(now)

    @property
    def first(self) -> float:
        return _short(self._times[0] - self._started) if self._times else 0.0

    @property
    def gaps(self) -> list[float]:
        pairs = zip(self._times, self._times[1:], strict=False)
        return [_short(after - before) for before, after in pairs]


def _short(seconds: float) -> float:
    return round(seconds, 6)  # finer than a clock can tell, and short in a file
