"""The exact law of what the engine itself gives out."""

from __future__ import annotations

from collections import Counter

from multidraft import SamplingParams
from multidraft.audit.branches import outcomes
from multidraft.engine.engine import Engine


def enumerate_output(
    target, drafter, verifier, params: SamplingParams, prompt: list[int], tokens: int
) -> dict[tuple[int, ...], float]:
    """The exact law of a whole output of ``tokens``: every branch of what the engine does."""
    engine = Engine(target, drafter, verifier)
    params = SamplingParams(**{**vars(params), "max_tokens": tokens})

    def decode(chance) -> tuple[int, ...]:
        sequence = engine.submit(prompt, params)
        sequence.chance = chance
        while engine.busy:
            engine.step()
        return tuple(sequence.output)

    law: Counter[tuple[int, ...]] = Counter()
    for probability, output in outcomes(decode):
        law[output] += probability
    return law
