"""What theory says of the first draft token, and what the run's rounds did with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multidraft.bench.records import Cell, Record
from multidraft.bench.report.bootstrap import SEED, resample_counts
from multidraft.bench.report.group import Row
from multidraft.bench.report.load import Run
from multidraft.bench.report.measures import MEAN, Measured, mean_over
from multidraft.bench.report.table import Estimate
from multidraft.bench.theory.acceptance import KINDS
from multidraft.bench.theory.scores import Scores
from multidraft.bench.theory.texts import COMPARABLE, round_starts

Array = npt.NDArray[np.float64]
_Key = tuple[Cell, str, int]  # of a record and of its scores


@dataclass(frozen=True)
class Measurement:
    """Rounds of one method, and theory at the places where they began.

    Attributes:
        dataset: or `MEAN`.
        rounds: how many.
        measured: share of the rounds that accepted their first draft token.
        expected: theory's mean at the same places.
        difference: measured − expected.
    """

    dataset: str
    row: Row
    rounds: int
    measured: Estimate
    expected: Estimate
    difference: Estimate


@dataclass(frozen=True)
class Theory:
    """One pair at one temperature.

    Attributes:
        method: whose texts were scored at every place.
        places, texts, prompts: how many, by data set.
        acceptance: by data set (`MEAN` where there are several) and kind, for K = 1, 2, …
        measurements: of comparable methods.
        left_out: texts whose tokens could not be told.
    """

    pair: str
    temperature: float
    method: str
    places: dict[str, int]
    texts: dict[str, int]
    acceptance: dict[str, dict[str, Measured]]
    measurements: list[Measurement]
    left_out: int

    @property
    def main(self) -> str:
        """Where the figure to quote is: the mean, or the only data set."""
        return MEAN if MEAN in self.acceptance else next(iter(self.acceptance))

    def __str__(self) -> str:
        return f"{self.pair}, T = {self.temperature:g}"


def theories(run: Run) -> list[Theory]:
    """The theory of a run, by pair and temperature; empty where none was computed."""
    records = {record.key: record for record in run.records}
    settings: dict[tuple[str, float], list[Scores]] = defaultdict(list)
    for scores in run.theory:
        if scores.key in records:
            settings[scores.cell.pair, scores.cell.temperature].append(scores)
    pairs = run.in_order("pairs", (pair for pair, _ in settings))
    datasets = run.in_order("data", (scores.cell.dataset for scores in run.theory))
    return [
        _theory(setting, settings[setting], records, datasets)
        for setting in sorted(settings, key=lambda s: (pairs.index(s[0]), s[1]))
        if any(scores.whole and scores.positions for scores in settings[setting])
    ]


def _theory(
    setting: tuple[str, float],
    found: Sequence[Scores],
    records: Mapping[_Key, Record],
    datasets: Sequence[str],
) -> Theory:
    whole: dict[str, list[Scores]] = {}
    for dataset in datasets:
        part = [s for s in found if s.whole and s.positions and s.cell.dataset == dataset]
        if part:
            whole[dataset] = part
    rng = np.random.default_rng(SEED)  # as `Measures` do
    acceptance: dict[str, dict[str, Measured]] = {}
    for dataset, part in whole.items():
        sums = _by_prompt(
            (s.example, [[1.0, *np.concatenate(rows)] for rows in _rows(s)]) for s in part
        )
        shares = _shares(sums[:, 1:], sums[:, 0], rng)
        acceptance[dataset] = {
            kind: Measured(values, samples, shares.units)
            for kind, values, samples in zip(
                KINDS,
                np.split(shares.values, len(KINDS)),
                np.split(shares.samples, len(KINDS), axis=1),
                strict=True,
            )
        }
    if len(acceptance) > 1:
        parts = list(acceptance.values())
        acceptance[MEAN] = {kind: mean_over([part[kind] for part in parts]) for kind in KINDS}
    return Theory(
        *setting,
        next(iter(whole.values()))[0].cell.method,
        {dataset: sum(len(s.positions) for s in part) for dataset, part in whole.items()},
        {dataset: len(part) for dataset, part in whole.items()},
        acceptance,
        _measurements(found, records, datasets),
        sum(bool(scores.error) for scores in found),
    )


def _rows(scores: Scores) -> Iterable[tuple[list[float], ...]]:
    """At each place, its probabilities by kind."""
    return zip(*(scores.acceptance[kind] for kind in KINDS), strict=True)


def _measurements(
    found: Sequence[Scores], records: Mapping[_Key, Record], datasets: Sequence[str]
) -> list[Measurement]:
    by_row: dict[Row, dict[str, list[Scores]]] = defaultdict(lambda: defaultdict(list))
    for scores in found:
        cell = scores.cell
        if cell.method in COMPARABLE and scores.positions:
            row = Row(cell.method, cell.num_drafts, cell.draft_length)
            by_row[row][cell.dataset].append(scores)
    measurements = []
    order = list(COMPARABLE)
    for row in sorted(by_row, key=lambda r: (order.index(r.method), r.num_drafts, r.draft_length)):
        rng = np.random.default_rng(SEED)
        shares: dict[str, Measured] = {}
        rounds: dict[str, int] = {}
        for dataset in datasets:
            part = by_row[row][dataset]
            sums = _by_prompt((s.example, _outcomes(s, records[s.key])) for s in part)
            if len(sums):
                shares[dataset] = _shares(sums[:, 1:], sums[:, 0], rng)
                rounds[dataset] = int(sums[:, 0].sum())
        if len(shares) > 1:
            shares[MEAN] = mean_over(list(shares.values()))
            rounds[MEAN] = sum(rounds.values())
        for dataset, share in shares.items():
            estimates = (share.estimate(0), share.estimate(1), share.difference(0, 1))
            measurements.append(Measurement(dataset, row, rounds[dataset], *estimates))
    return measurements


def _outcomes(scores: Scores, record: Record) -> list[list[float]]:
    """Of each round that was scored: 1, whether it accepted a token, and theory's probability."""
    cell = record.cell
    expected = dict(zip(scores.positions, scores.acceptance[COMPARABLE[cell.method]], strict=True))
    return [
        [1.0, float(accepted), expected[start][cell.num_drafts - 1]]
        for start, accepted in round_starts(record)
        if start in expected
    ]


def _by_prompt(texts: Iterable[tuple[str, Sequence[Sequence[float]]]]) -> Array:
    """Rows summed over each prompt's texts. [prompts, columns]; [0, 0] without any row."""
    sums: dict[str, Array] = {}
    for example, rows in texts:
        if len(rows):
            sums[example] = sums.get(example, 0.0) + np.sum(rows, axis=0)
    return np.stack(list(sums.values())) if sums else np.zeros((0, 0))


def _shares(above: Array, below: Array, rng: np.random.Generator) -> Measured:
    """Ratios of sums over prompts. above: [prompts, columns], below: [prompts]."""
    counts = resample_counts(len(below), rng)
    samples = (counts @ above) / (counts @ below)[:, None]
    return Measured(above.sum(axis=0) / below.sum(), samples, len(below))
