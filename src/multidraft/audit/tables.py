"""Tables of expected and observed counts: what the tests of an audit compare.

Every table is a partition of the samples that is fixed before they are seen, from the exact law
and the number of samples alone. Positions are counted from the prompt; where a round of drafting
ended depends on the tokens, so nothing is ever selected by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multidraft.audit.law import ExactLaw, Tokens

# Cells expected less often than this are pooled.
LEAST_EXPECTED = 10.0
# Cells that expect less than that even together join the category that expects least. Where it
# holds more of the probability than this, it would hide them: they are then counted by themselves.
_HIDES = 0.01


@dataclass(frozen=True)
class Table:
    """Categories in strata; within a stratum their exact probabilities sum to 1.

    Attributes:
        name: as reported.
        category: [cells] the category of each cell of the law, -1 for those left out.
        stratum: [categories] the stratum of each.
        q: [categories] exact probability within the stratum.
        rare: [cells] those that a category of other cells hides.
        rare_q: [categories] the part of q that is theirs.
    """

    name: str
    category: np.ndarray
    stratum: np.ndarray
    q: np.ndarray
    rare: np.ndarray
    rare_q: np.ndarray

    @property
    def degrees(self) -> int:
        """Degrees of freedom."""
        return len(self.q) - len(np.unique(self.stratum))

    @property
    def rare_p(self) -> float:
        """Probability of a sample in one of the rare cells."""
        return float(self.rare_q.sum()) / len(np.unique(self.stratum))

    def observed(self, counts: np.ndarray) -> np.ndarray:
        """[categories] counts from [cells] counts."""
        used = self.category >= 0
        return np.bincount(self.category[used], counts[used], len(self.q))


class Cells:
    """The cells of the exact laws of all prompts, one after the other.

    Args:
        laws: one per prompt; samples are shared out among them evenly.
    """

    def __init__(self, laws: Sequence[ExactLaw]):
        self.laws = laws
        self.num_tokens = laws[0].num_tokens
        self.offsets = np.cumsum([0, *(len(law.cells) for law in laws)])
        self.prompt = np.repeat(np.arange(len(laws)), np.diff(self.offsets))
        self.p = np.concatenate([law.p for law in laws])  # within its prompt

    def __len__(self) -> int:
        return len(self.p)

    @property
    def are_point_masses(self) -> bool:
        """Whether the law leaves no choice after any prompt."""
        return all(len(law.cells) == 1 for law in self.laws)

    def of(self, prompt: int, tokens: Tokens) -> int:
        """The cell of one sample; -1 if the law excludes it."""
        cell = self.laws[prompt].cell_of(tokens)
        return cell if cell < 0 else int(self.offsets[prompt]) + cell

    def describe(self, cell: int) -> tuple[int, Tokens]:
        """(prompt, tokens) of a cell."""
        prompt = int(self.prompt[cell])
        return prompt, self.laws[prompt].cells[cell - self.offsets[prompt]]

    def joint(self, samples: int) -> Table:
        """All n tokens together, rare cells pooled with their neighbours by prefix."""
        pooled = [pool(law, samples / len(self.laws) * law.p) for law in self.laws]
        return self._table(
            "all tokens",
            [numbers for numbers, _ in pooled],
            np.concatenate([rare for _, rare in pooled]),
        )

    def marginals(self, samples: int) -> list[Table]:
        """The token at each position."""
        per_prompt = samples / len(self.laws)
        tables = []
        for position in range(self.num_tokens):
            names = []
            for law in self.laws:
                names.append(_pool_flat(law.matrix[:, position], per_prompt * law.p))
            tables.append(self._table(f"token {position + 1}", names))
        return tables

    def transitions(self, samples: int) -> list[Table]:
        """The token at each position from the second, given all tokens before it."""
        return [self._transition(position, samples) for position in range(1, self.num_tokens)]

    def _table(
        self, name: str, names: Sequence[np.ndarray], rare: np.ndarray | None = None
    ) -> Table:
        """One stratum per prompt; ``names`` are [cells of the prompt] category numbers."""
        category, offset, stratum = [], 0, []
        for prompt, numbers in enumerate(names):
            category.append(numbers + offset)
            size = int(numbers.max()) + 1
            stratum += [prompt] * size
            offset += size
        all_categories = np.concatenate(category)
        q = np.bincount(all_categories, self.p, offset)
        rare = np.zeros(len(self), dtype=bool) if rare is None else rare
        rare_q = np.bincount(all_categories[rare], self.p[rare], offset)
        return Table(name, all_categories, np.array(stratum, dtype=np.int64), q, rare, rare_q)

    def _transition(self, position: int, samples: int) -> Table:
        category = np.full(len(self), -1)
        stratum: list[int] = []
        q: list[float] = []
        strata = 0
        for prompt, law in enumerate(self.laws):
            tokens = law.matrix[:, position]
            longer = np.flatnonzero(tokens >= 0)
            contexts = law.prefixes[position][longer]
            reach = np.bincount(contexts, law.p[longer])
            frequent = samples / len(self.laws) * reach[contexts] >= 2 * LEAST_EXPECTED
            for members in _groups(longer[frequent], contexts[frequent]):
                next_law = law.next_law[law.cells[members[0]][:position]]
                total = samples / len(self.laws) * law.p[members].sum()
                numbers = _pool_flat(np.arange(len(next_law)), total * next_law)
                size = int(numbers[next_law > 0].max()) + 1
                if size < 2:
                    continue
                category[self.offsets[prompt] + members] = len(q) + numbers[tokens[members]]
                stratum += [strata] * size
                strata += 1
                q += np.bincount(numbers, next_law, size).tolist()
        given = "token 1" if position == 1 else f"tokens 1-{position}"
        return Table(
            f"token {position + 1} given {given}",
            category,
            np.array(stratum, dtype=np.int64),
            np.array(q),
            np.zeros(len(self), dtype=bool),
            np.zeros(len(q)),
        )


def pool(law: ExactLaw, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[cells] category numbers: a cell of its own where enough is expected, else one with the
    remaining cells of the longest shared prefix that together expect enough. And [cells] which
    ones a category that is not theirs hides."""
    numbers = np.full(len(expected), -1)
    pending = np.arange(len(expected))
    size = 0
    for length in range(law.num_tokens, -1, -1):
        groups = np.unique(law.prefixes[length][pending], return_inverse=True)[1]
        enough = np.bincount(groups, expected[pending]) >= LEAST_EXPECTED
        number = np.where(enough, size + enough.cumsum() - 1, -1)[groups]
        numbers[pending] = number
        size += int(enough.sum())
        pending = pending[number < 0]
        if not len(pending):
            break
    rare = np.zeros(len(expected), dtype=bool)
    if len(pending) and size:
        joined = _smallest(numbers, expected, size)
        rare[pending] = law.p[numbers == joined].sum() > _HIDES
        numbers[pending] = joined
    return np.maximum(numbers, 0), rare  # all in one where even that expects too little


def _groups(items: np.ndarray, keys: np.ndarray) -> list[np.ndarray]:
    """Items of equal key together."""
    order = np.argsort(keys, kind="stable")
    borders = np.flatnonzero(np.diff(keys[order])) + 1
    return np.split(items[order], borders) if len(items) else []


def _pool_flat(keys: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Category numbers of cells grouped by key, groups that expect too little put together."""
    _, groups = np.unique(keys, return_inverse=True)
    totals = np.bincount(groups, expected)
    own = totals >= LEAST_EXPECTED
    numbers = np.where(own, own.cumsum() - 1, -1)[groups]
    size = int(own.sum())
    rest = numbers < 0
    if expected[rest].sum() >= LEAST_EXPECTED:
        numbers[rest] = size
    else:
        numbers[rest] = _smallest(numbers, expected, size)
    return numbers


def _smallest(numbers: np.ndarray, expected: np.ndarray, size: int) -> int:
    """The category that expects least; 0 where there is none yet."""
    if size == 0:
        return 0
    used = numbers >= 0
    return int(np.bincount(numbers[used], expected[used], size).argmin())
