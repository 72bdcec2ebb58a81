"""Which of the predicted settings are worth measuring."""

from __future__ import annotations

from collections.abc import Mapping

from multidraft.bench.report.group import Row
from multidraft.bench.tune.predict import Prediction
from multidraft.bench.tune.settings import PLAIN

#: Settings measured beside plain decoding and auto.
MOST_CHOSEN = 3  # each takes about as long as plain decoding
_LEAST = 0.8  # of plain decoding's speed: predictions may be wrong by more than that is off


def promising(predicted: Mapping[Row, Prediction]) -> list[Row]:
    """The settings to measure beside plain decoding and auto, best first: of each kind the best
    length, as neighbouring lengths hardly differ and predictions compare lengths better than kinds.
    One at least, so that a poor pair shows as one.

    Args:
        predicted: see `predict`.
    """
    speeds = {row: found.tokens_per_second for row, found in predicted.items()}
    best: dict[str, Row] = {}
    for row in sorted(speeds, key=lambda row: -speeds[row]):
        if row != PLAIN:
            best.setdefault(row.method, row)
    ranked = list(best.values())[:MOST_CHOSEN]
    far_behind = _LEAST * speeds[PLAIN]
    return [row for i, row in enumerate(ranked) if i == 0 or speeds[row] >= far_behind]
