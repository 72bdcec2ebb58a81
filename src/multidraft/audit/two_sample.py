"""Two samples of the same engine, with speculation on and off: do they have one law?

For models whose exact law cannot be had. The categories come from both samples together, so
swapping the labels of two answers to one prompt changes nothing about them; the p-values are those
of that permutation (Good 2005), exact for any number of samples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multidraft.audit.gtest import detectable
from multidraft.audit.law import Tokens
from multidraft.errors import InvalidInput

#: Categories with fewer answers than this, both samples together, are pooled.
LEAST_COUNT = 10
# At least so many. More where a test's share of alpha is too small for them, until enough are as
# far out as what was observed (Besag and Clifford 1991).
_PERMUTATIONS = 19_999
_MOST_PERMUTATIONS = 1_000_000
_ENOUGH = 20
_JOINT_SHARE = 0.5


@dataclass(frozen=True)
class Difference:
    """One test of the two samples against each other.

    Attributes:
        name: what was compared.
        degrees: degrees of freedom.
        statistic: G.
        p_value: by permutation, before correction for several tests.
    """

    name: str
    degrees: int
    statistic: float
    p_value: float


@dataclass(frozen=True)
class TwoSampleReport:
    """What the tests found.

    Attributes:
        p_value: corrected for all tests.
        detectable: the total variation, averaged over prompts, that is found with probability
            0.99.
        differences: the tests.
        worst: (prompt, tokens, count in a, count in b) of the answers furthest apart.
    """

    p_value: float
    detectable: float
    differences: tuple[Difference, ...]
    worst: tuple[tuple[int, Tokens, int, int], ...]


def two_sample(
    a: Sequence[Sequence[Tokens]],
    b: Sequence[Sequence[Tokens]],
    alpha: float,
    seed: int = 0,
) -> TwoSampleReport:
    """Test whether two samples have one law.

    Args:
        a, b: per prompt, the answers' tokens; equally many answers of equal length in both.
        alpha: error rate for which the detectable difference is worked out.
        seed: of the permutations.

    Raises:
        InvalidInput: see `permutations_for`.
    """
    length = max(1, *(len(answer) for answers in (*a, *b) for answer in answers))
    permutations = permutations_for(alpha, length)
    rng = np.random.Generator(np.random.PCG64(seed))
    joint = [_by_prefix(x, y, length) for x, y in zip(a, b, strict=True)]
    tests = [("all tokens", joint)]
    for position in range(length):
        one = slice(position, position + 1)
        marginal = [
            _by_prefix([t[one] for t in x], [t[one] for t in y], 1)
            for x, y in zip(a, b, strict=True)
        ]
        tests.append((f"token {position + 1}", marginal))
    differences = [_permute(name, counts, permutations, rng) for name, counts in tests]
    weights = [_JOINT_SHARE, *[(1 - _JOINT_SHARE) / length] * length]
    corrected = min(d.p_value / w for d, w in zip(differences, weights, strict=True))
    # Each side's frequencies are noisy, so the statistic is noncentral by 2 N d² only.
    per_side = sum(len(answers) for answers in a)
    found = 1.0  # one category for each prompt: nothing is found
    if degrees := differences[0].degrees:
        found = math.sqrt(2) * detectable(degrees, per_side, alpha * _JOINT_SHARE)
    return TwoSampleReport(min(1.0, corrected), min(1.0, found), tuple(differences), _worst(a, b))


def permutations_for(alpha: float, length: int) -> int:
    """With these, a test of one of ``length`` positions can reach its share of ``alpha``.

    Raises:
        InvalidInput: alpha is no probability, or too small for any reasonable number of them.
    """
    if not 0 < alpha < 1:
        raise InvalidInput(f"alpha must lie between 0 and 1, not {alpha!r}.")
    needed = max(_PERMUTATIONS, math.ceil(2 * length / (1 - _JOINT_SHARE) / alpha) - 1)
    if needed > _MOST_PERMUTATIONS:
        least = 2 * length / (1 - _JOINT_SHARE) / _MOST_PERMUTATIONS
        raise InvalidInput(
            f"alpha is too small for a test by permutation, {alpha!r}; take {least:.1g} or more."
        )
    return needed


Counts = np.ndarray  # [2, categories]


def _by_prefix(x: Sequence[Tokens], y: Sequence[Tokens], length: int) -> Counts:
    """Counts by category: an answer of its own where frequent enough, else with the others of the
    longest prefix it shares that are together frequent enough."""
    first, second = Counter(x), Counter(y)
    pending = list(first.keys() | second.keys())
    columns: list[tuple[int, int]] = []
    for size in range(length, -1, -1):
        groups: dict[Tokens, list[Tokens]] = {}
        for tokens in sorted(pending):
            groups.setdefault(tokens[:size], []).append(tokens)
        pending = []
        for members in groups.values():
            pair = (sum(first[m] for m in members), sum(second[m] for m in members))
            if sum(pair) >= LEAST_COUNT or size == 0:
                columns.append(pair)
            else:
                pending += members
    return np.array(columns).T


def _permute(
    name: str, tables: Sequence[Counts], permutations: int, rng: np.random.Generator
) -> Difference:
    """Permute labels within each prompt, all prompts at once."""
    totals = [table.sum(0) for table in tables]
    statistic = sum(
        float(_g(t[0][None], total)[0]) for t, total in zip(tables, totals, strict=True)
    )
    done = as_far = 0
    while done < permutations and as_far < _ENOUGH:
        permuted = np.zeros(min(_PERMUTATIONS, permutations - done))
        for table, total in zip(tables, totals, strict=True):
            if len(total) > 1:
                size, count = int(table[0].sum()), len(permuted)
                draws = rng.multivariate_hypergeometric(total, size, count, method="marginals")
                permuted += _g(draws, total)
        # A margin for sums taken in another order, so that equal tables count as equal.
        as_far += int((permuted >= statistic - 1e-9).sum())
        done += len(permuted)
    degrees = sum(len(total) - 1 for total in totals)
    return Difference(name, degrees, statistic, (1 + as_far) / (1 + done))


def _g(first: np.ndarray, total: np.ndarray) -> np.ndarray:
    """[rows] G of homogeneity for rows of counts [rows, categories] out of ``total``."""
    share = first.sum(1, keepdims=True) / total.sum()
    g = np.zeros(len(first))
    for counts, expected in ((first, share * total), (total - first, (1 - share) * total)):
        g += 2 * np.where(counts > 0, counts * np.log(np.maximum(counts, 1) / expected), 0.0).sum(1)
    return g


def _worst(
    a: Sequence[Sequence[Tokens]], b: Sequence[Sequence[Tokens]], show: int = 5
) -> tuple[tuple[int, Tokens, int, int], ...]:
    rows = []
    for prompt, (x, y) in enumerate(zip(a, b, strict=True)):
        first, second = Counter(x), Counter(y)
        rows += [
            (prompt, t, first[t], second[t])
            for t in first.keys() | second.keys()
            if first[t] + second[t] >= LEAST_COUNT
        ]
    rows.sort(key=lambda row: -((row[2] - row[3]) ** 2) / (row[2] + row[3]))
    return tuple(rows[:show])
