"""The figures published for SpecTr-GBV, to be set beside a run's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from multidraft.bench.report.group import Row
from multidraft.bench.report.measures import MEAN, Measures

CAPTION = "Published figures beside this run's, which has other models and other hardware"
NOTES = (
    "Published: Lin et al. 2026, DeepSeek-Coder 33B with 1.3B, K = 3, L = 12, T = 0.4, mean over "
    "five data sets. The run's are from the setting of its grid nearest to that. Neither column "
    "can confirm or refute the other: models, hardware and prompts differ.",
    "'Over standard' is a method's figure divided by that of standard speculative decoding, which "
    "depends less on models and hardware.",
)
#: Where they were measured, as labels of a table's figures.
SETTING: Mapping[str, str | int | float] = {
    "pair": "published: DeepSeek-Coder 33B + 1.3B",
    "dataset": MEAN,
    "num_drafts": 3,
    "draft_length": 12,
    "temperature": 0.4,
    "batch": 1,
}
STANDARD = "token"


@dataclass(frozen=True)
class Published:
    name: str
    method: str
    block_efficiency: float
    speed_up: float


FIGURES = (
    Published("Standard speculative decoding", STANDARD, 7.64, 1.64),
    Published("SpecTr", "spectr", 8.39, 1.96),
    Published("Greedy block verification", "greedy-block", 7.83, 1.67),
    Published("SpecTr-GBV", "spectr-gbv", 8.59, 2.12),
)


def nearest(everything: Sequence[Measures]) -> list[tuple[Measures, dict[str, Row]]]:
    """For each pair and batch size the group and rows, by method, nearest to the published setting.

    Left out where there is none of the methods.
    """
    groups: dict[tuple[str, int], list[Measures]] = {}
    for measures in everything:
        if measures.by_dataset:
            group = measures.group
            groups.setdefault((group.pair, group.batch), []).append(measures)
    found = []
    for candidates in groups.values():
        measures = min(candidates, key=lambda m: _apart(m.group.temperature, "temperature"))
        rows = sorted(measures.group.rows, key=_distance, reverse=True)
        by_method = {row.method: row for row in rows}  # the nearest comes last
        if any(figure.method in by_method for figure in FIGURES):
            found.append((measures, by_method))
    return found


def _distance(row: Row) -> tuple[float, float]:
    return _apart(row.draft_length, "draft_length"), _apart(row.num_drafts, "num_drafts")


def _apart(value: float, key: str) -> float:
    return abs(value - float(SETTING[key]))
