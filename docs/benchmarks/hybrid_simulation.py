"""Block efficiency of hybrid trees and of i.i.d. drafts of the same size, on random Markov pairs.

    python docs/benchmarks/hybrid_simulation.py --rounds 2000

Every method has the same draft steps (L) and the same scored positions (3 L). A pair is two random
laws of the next of 48 tokens given the last one: a *mixture* draft is a part target, the rest a law
of its own; a *noisy* one is the target with noise on its logits, and surer than it should be.
Standard errors are over sequences.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from multidraft import Decoder, FunctionModel, SamplingParams
from multidraft.draft import HybridTreeDrafter, ModelDrafter

VOCAB_SIZE = 48
#: (kind, share of the target or size of the noise, temperature, L)
SETTINGS = [
    ("mixture", 0.8, 1.0, 6),
    ("mixture", 0.6, 1.0, 6),
    ("mixture", 0.6, 0.4, 8),
    ("noisy", 1.0, 1.0, 6),
    ("noisy", 1.6, 0.4, 6),
]
METHODS = {
    "spectr-gbv, 3 drafts": lambda draft, length: ModelDrafter(draft, 3, length),
    "traversal, 3 drafts": lambda draft, length: ModelDrafter(draft, 3, length),
    "hybrid, widths 3, 1, …": lambda draft, length: HybridTreeDrafter(draft, length, widths=[3]),
    "hybrid, by budget": lambda draft, length: HybridTreeDrafter(draft, length, 3 * length),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000, help="at least, of each method")
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| pair | overlap | T | L | " + " | ".join(METHODS) + " |")
    print("| --- " * (4 + len(METHODS)) + "|")
    for kind, size, temperature, length in SETTINGS:
        target, draft = random_pair(np.random.default_rng(args.seed), kind, size)
        overlap = np.minimum(at(target, temperature), at(draft, temperature)).sum(1).mean()
        print(f"| {kind} {size} | {overlap:.2f} | {temperature} | {length} |", end="", flush=True)
        for name, make_drafter in METHODS.items():
            verifier = "spectr-gbv" if name.startswith("spectr-gbv") else "traversal"
            drafter = make_drafter(markov(draft), length)
            decoder = Decoder(markov(target), drafter, verifier)
            value, error = block_efficiency(decoder, temperature, args.rounds)
            print(f" {value:.2f} ± {error:.2f} |", end="", flush=True)
        print()


def random_pair(rng: np.random.Generator, kind: str, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Laws [V, V] of target and draft: row c is the law of the token after c."""
    if kind == "mixture":
        weights = np.full(VOCAB_SIZE, 0.2)
        target = rng.dirichlet(weights, size=VOCAB_SIZE)
        return target, size * target + (1 - size) * rng.dirichlet(weights, size=VOCAB_SIZE)
    logits = 2.5 * rng.normal(size=(VOCAB_SIZE, VOCAB_SIZE))
    noisy = logits + size * rng.normal(size=logits.shape)
    return normalised(np.exp(logits)), normalised(np.exp(noisy))


def at(laws: np.ndarray, temperature: float) -> np.ndarray:
    return normalised(laws ** (1 / temperature))


def normalised(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum(axis=1, keepdims=True)


def markov(laws: np.ndarray) -> FunctionModel:
    rows = torch.tensor(laws)
    return FunctionModel(VOCAB_SIZE, lambda context: rows[context[-1]])


def block_efficiency(decoder: Decoder, temperature: float, rounds: int) -> tuple[float, float]:
    """Tokens per round and its standard error over sequences (delta method)."""
    counts: list[tuple[int, int]] = []
    while sum(r for _, r in counts) < rounds:
        params = SamplingParams(temperature=temperature, max_tokens=200, seed=len(counts))
        results = decoder.generate([[0]] * 16, params)
        counts += [(result.stats.tokens, result.stats.rounds) for result in results]
    tokens, taken = np.array(counts).T
    value, n = tokens.sum() / taken.sum(), len(counts)
    spread = np.sqrt(n / (n - 1) * ((tokens - value * taken) ** 2).sum())
    return value, spread / taken.sum()


if __name__ == "__main__":
    main()
