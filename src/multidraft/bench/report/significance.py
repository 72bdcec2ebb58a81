"""Is a difference established? A paired test over prompts, and its correction for many tests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_CHUNK = 2048  # bounds the memory


def sign_flip_test(differences: Array, flips: int, rng: np.random.Generator) -> Array:
    """Two-sided permutation tests of paired differences.

    If two methods do not differ, exchanging them on any of the prompts changes nothing, so each
    prompt's difference may as well have the other sign. The statistic is the sum.

    Args:
        differences: per prompt and test; NaN where a prompt says nothing. [n, tests]
        flips: random assignments of signs, the same for all tests.
        rng: draws them.

    Returns:
        p-values, at least 1 / (flips + 1); 1 where no prompt says anything. [tests]
    """
    known = np.nan_to_num(differences, nan=0.0)
    # Sums that are equal but for rounding are ties.
    observed = np.abs(known.sum(axis=0)) - 1e-12 * np.abs(known).sum(axis=0)
    extreme = np.ones(known.shape[1])  # the assignment that was observed is one of them
    for start in range(0, flips, _CHUNK):
        signs = rng.integers(0, 2, (min(_CHUNK, flips - start), len(known)), dtype=np.int8)
        sums = (2.0 * signs - 1.0) @ known
        extreme += (np.abs(sums) >= observed).sum(axis=0)
    return extreme / (flips + 1)


def holm(p_values: Array) -> Array:
    """Holm's step-down correction: p-values to be held against the level of all tests together."""
    order = np.argsort(p_values, kind="stable")
    left = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(left * p_values[order]))
    return corrected
