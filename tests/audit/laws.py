"""Small laws for exact tests."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "one_round.json").read_text())


def parse(laws: dict[str, list[float]]) -> dict[tuple[int, ...], list[float]]:
    """Laws keyed by comma-joined prefixes, as the golden file has them."""
    return {tuple(map(int, k.split(","))) if k else (): law for k, law in laws.items()}


def prefixes(vocab_size: int, longest: int) -> list[tuple[int, ...]]:
    return [
        prefix
        for length in range(longest + 1)
        for prefix in itertools.product(range(vocab_size), repeat=length)
    ]


def random_laws(
    rng: np.random.Generator, vocab_size: int, longest: int, zeros: float = 0.0
) -> dict[tuple[int, ...], np.ndarray]:
    """A random law for every prefix; each entry but one is 0 with probability ``zeros``."""
    laws = {}
    for prefix in prefixes(vocab_size, longest):
        weights = rng.dirichlet(np.full(vocab_size, 0.7)) + 1e-9
        dropped = rng.random(vocab_size) < zeros
        dropped[rng.integers(vocab_size)] = False
        weights[dropped] = 0.0
        laws[prefix] = weights / weights.sum()
    return laws
