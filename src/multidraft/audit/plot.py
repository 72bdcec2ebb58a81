"""A picture of observed against exact law."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from multidraft.audit.report import Report
from multidraft.errors import InvalidInput

_BAND = 0.99


def check_plot(file: Path) -> None:
    """Raise InvalidInput now, not after the sampling, where a picture could not be written."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput(
            "--plot needs matplotlib; install it with: pip install '.[audit]'"
        ) from None
    kinds = FigureCanvasAgg(Figure()).get_supported_filetypes()
    if file.suffix.lstrip(".").lower() not in kinds:
        raise InvalidInput(f"Cannot draw {file.name!r}; end its name in .png, .svg or .pdf.")
    if not file.absolute().parent.is_dir():
        raise InvalidInput(f"There is no folder {file.absolute().parent} to write the picture to.")


def draw(report: Report, file: Path) -> None:
    """Write the picture: every category's observed over exact probability, and the marginals.

    A lossless engine's points lie in the band that 99% of each should lie in.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(f"{report.engine}: {report.verdict}, {report.samples:,} samples")
    _joint(left, report)
    _marginals(right, report)
    try:
        figure.savefig(file, dpi=150)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InvalidInput(f"The picture cannot be written to {file}: {reason}.") from error


def _joint(axes: Any, report: Report) -> None:
    table = report.table
    # Prompts share the samples evenly, so a category's expected share is its own over their number.
    exact = table.q / len(report.cells.laws)
    observed = table.observed(report.counts) / report.samples
    grid = np.geomspace(exact.min(), exact.max(), 200)
    low, high = (
        stats.binom.ppf(level, report.samples, grid) / report.samples / grid
        for level in ((1 - _BAND) / 2, (1 + _BAND) / 2)
    )
    axes.fill_between(grid, low, high, alpha=0.2, label=f"{_BAND:.0%} band of sampling noise")
    axes.plot(exact, observed / exact, ".", markersize=3, color="black", label="a category")
    axes.axhline(1, linewidth=0.8)
    axes.set(
        xscale="log",
        xlabel="exact probability",
        ylabel="observed / exact",
        title=f"first {report.setting.num_tokens} tokens",
    )
    axes.legend()


def _marginals(axes: Any, report: Report) -> None:
    law = report.cells.laws[0]
    counts = report.counts[: len(law.cells)]
    size = len(next(iter(law.next_law.values())))
    width = 0.8 / report.setting.num_tokens
    for position in range(report.setting.num_tokens):
        tokens = law.matrix[:, position]
        followed = tokens >= 0
        exact = np.bincount(tokens[followed], law.p[followed], size)
        seen = np.bincount(tokens[followed], counts[followed], size) / max(counts.sum(), 1)
        at = np.arange(size) + (position + 0.5) * width - 0.4
        axes.bar(at, seen, width, label=f"token {position + 1}")
        axes.plot(at, exact, "k_", markersize=8)
    axes.set(xlabel="token", ylabel="probability", title="each position; dashes: exact")
    axes.legend(fontsize="small")
