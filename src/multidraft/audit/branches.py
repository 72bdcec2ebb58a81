"""A source of chance that walks every branch of a random procedure, with its probability."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from multidraft.chance import Chance

T = TypeVar("T")


class _Walker:
    """A `Chance` that replays a script of decisions and takes the first option after its end."""

    def __init__(self, script: list[int]):
        self.probability = 1.0
        self._script = script
        self._taken: list[tuple[int, int]] = []  # (option, number of options) so far

    def _decide(self, probabilities: list[float]) -> int:
        position = len(self._taken)
        option = self._script[position] if position < len(self._script) else 0
        self._taken.append((option, len(probabilities)))
        self.probability *= probabilities[option]
        return option

    def accept(self, probability: float) -> bool:
        if probability >= 1.0 or probability <= 0.0:
            return probability >= 1.0
        return self._decide([probability, 1.0 - probability]) == 0

    def draw(self, law: torch.Tensor) -> int:
        tokens = [(token, p) for token, p in enumerate(law.tolist()) if p > 0.0]
        total = sum(p for _, p in tokens)
        return tokens[self._decide([p / total for _, p in tokens])][0]

    def next_script(self) -> list[int] | None:
        """The script of the next branch in depth-first order, None after the last."""
        taken = list(self._taken)
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return None
        return [option for option, _ in taken[:-1]] + [taken[-1][0] + 1]


def outcomes(run: Callable[[Chance], T]) -> Iterator[tuple[float, T]]:
    """Every (probability, result) of a function whose only randomness is its `Chance`."""
    script: list[int] | None = []
    while script is not None:
        walker = _Walker(script)
        result = run(walker)
        yield walker.probability, result
        script = walker.next_script()
