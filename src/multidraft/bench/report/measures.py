"""A group's figures with their intervals: ratios of sums over prompts, and means over data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from multidraft.bench.methods import PLAIN
from multidraft.bench.report.bootstrap import SEED, interval, resample_counts
from multidraft.bench.report.group import Group, Row
from multidraft.bench.report.table import Estimate
from multidraft.engine.stats import PHASES

Array = npt.NDArray[np.float64]

#: In the place of a data set's name: the mean over all of them.
MEAN = "mean"
#: Each figure's numerator and denominator.
RATIOS: Mapping[str, tuple[str, str]] = {
    "block_efficiency": ("full_tokens", "full_rounds"),
    "acceptance_rate": ("fractions", "full_rounds"),
    "tokens_per_second": ("tokens", "seconds"),
    "seconds_per_token": ("seconds", "tokens"),
    **{f"{phase}_share": (phase, "seconds") for phase in PHASES},
}
SPEED_UP = "speed_up"
#: Their mean is the geometric one: then the ratio of means is the mean of the data sets' ratios,
#: whichever method is below, and it is what the tests of mean logarithms are about.
_SPEEDS = ("tokens_per_second", "seconds_per_token", SPEED_UP)


@dataclass(frozen=True)
class Measured:
    """One figure of all rows.

    Attributes:
        values: NaN where a row has none. [rows]
        samples: the same of each resample, which all rows and figures share. [RESAMPLES, rows]
        units: see `interval`.
    """

    values: Array
    samples: Array
    units: int

    def estimate(self, row: int) -> Estimate:
        return interval(float(self.values[row]), self.samples[:, row], self.units)

    def difference(self, row: int, base: int) -> Estimate:
        """The row's figure minus that of row ``base``."""
        samples = self.samples[:, row] - self.samples[:, base]
        return interval(float(self.values[row] - self.values[base]), samples, self.units)

    def ratio(self, row: int, base: int) -> Estimate:
        """The row's figure over that of row ``base``."""
        samples = self.samples[:, row] / self.samples[:, base]
        return interval(float(self.values[row] / self.values[base]), samples, self.units)


class Measures:
    """All figures of a group, by data set and name; `MEAN` where it has several data sets."""

    def __init__(self, group: Group):
        self.group = group

    @property
    def main(self) -> str:
        """Where the figure to quote is: the mean, or the only data set."""
        return MEAN if MEAN in self.by_dataset else next(iter(self.by_dataset))

    def estimate(self, dataset: str, name: str, row: Row) -> Estimate:
        return self.by_dataset[dataset][name].estimate(self.group.rows.index(row))

    @cached_property
    def by_dataset(self) -> dict[str, dict[str, Measured]]:
        # Every group starts from the same seed, so that groups of the same prompts share resamples.
        rng = np.random.default_rng(SEED)
        found = {
            dataset: self._ratios(dataset, rng)
            for dataset, sample in self.group.samples.items()
            if sample.units
        }
        if len(found) > 1:
            found[MEAN] = {
                name: mean_over([ratios[name] for ratios in found.values()], name in _SPEEDS)
                for name in next(iter(found.values()))
            }
        return found

    def _ratios(self, dataset: str, rng: np.random.Generator) -> dict[str, Measured]:
        sample = self.group.samples[dataset]
        counts = resample_counts(sample.units, rng)
        totals = {name: values.sum(axis=0) for name, values in sample.sums.items()}
        resampled = {name: counts @ values for name, values in sample.sums.items()}
        with np.errstate(invalid="ignore", divide="ignore"):  # NaN: the row has no such figure
            found = {
                name: Measured(
                    totals[above] / totals[below],
                    resampled[above] / resampled[below],
                    sample.units,
                )
                for name, (above, below) in RATIOS.items()
            }
        found[SPEED_UP] = self._speed_up(found["tokens_per_second"])
        return found

    def _speed_up(self, speed: Measured) -> Measured:
        plain = [i for i, row in enumerate(self.group.rows) if row.method == PLAIN]
        if not plain:
            return Measured(speed.values * np.nan, speed.samples * np.nan, speed.units)
        return Measured(
            speed.values / speed.values[plain], speed.samples / speed.samples[:, plain], speed.units
        )


def mean_over(parts: list[Measured], geometric: bool = False) -> Measured:
    """Every data set counts the same, whatever its size; NaN for a row that lacks one."""

    def mean(values: list[Array]) -> Array:
        if not geometric:
            return np.asarray(np.mean(values, axis=0))
        with np.errstate(divide="ignore"):  # a row without a single token
            return np.asarray(np.exp(np.mean(np.log(values), axis=0)))

    return Measured(
        mean([part.values for part in parts]),
        mean([part.samples for part in parts]),
        min(part.units for part in parts),
    )
