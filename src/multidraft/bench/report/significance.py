"""Is a difference established? A paired test over prompts, and its correction for many tests."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

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


def inheritance(p_values: Array, parents: Sequence[int | None]) -> Array:
    """Correction of tests that come in families: a parent's hypothesis first, then its children's.

    The procedure of Goeman and Finos 2012 for trees of two levels. The level is shared out equally
    among the families; in each the parent has all of its share, and once rejected leaves it to its
    children in equal parts. What a rejected hypothesis had goes to the siblings left, and from a
    family that is used up to the other families. Whatever the hypotheses are and however they
    depend, the chance to reject any true one is at most the level. Without children it is Holm's.

    Args:
        p_values: one of each test.
        parents: the test's parent, as its place in ``p_values``; None for parents themselves.

    Returns:
        p-values to be held against the level; a child's is no smaller than its parent's.
    """
    children: dict[int, list[int]] = {i: [] for i, parent in enumerate(parents) if parent is None}
    for i, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(i)
    now = {parent: [parent] for parent in children}  # of each family, what is tested next
    heap = [(float(p_values[parent]), parent) for parent in now]  # least p over share of a family
    heapq.heapify(heap)
    corrected = np.ones(len(p_values))
    highest = 0.0
    while heap:
        families = len(heap)
        least, parent = heapq.heappop(heap)
        highest = max(highest, min(1.0, families * least))
        test = now[parent].pop(0)
        corrected[test] = highest
        if test == parent:
            now[parent] = sorted(children[parent], key=lambda i: float(p_values[i]))
        if now[parent]:
            heapq.heappush(heap, (len(now[parent]) * float(p_values[now[parent][0]]), parent))
    return corrected
