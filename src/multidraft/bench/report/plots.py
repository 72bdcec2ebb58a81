"""The pictures of a report."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from multidraft.bench.methods import PLAIN
from multidraft.bench.report.ablation import AXES, Ablation
from multidraft.bench.report.measures import SPEED_UP, Measures
from multidraft.engine.stats import PHASES

# Stands for the page's own text colour, which differs in light and dark.
_INK = "#010203"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlesize": "medium",
    "axes.titlecolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _INK,
    "grid.alpha": 0.15,
    "legend.frameon": False,
}
#: Mid tones, to be seen on white and on black.
_COLOURS = (
    "#3b82c4",
    "#e0752d",
    "#2f9e68",
    "#c94f6d",
    "#8a6fd1",
    "#b08a1e",
    "#1aa3b8",
    "#d05bb2",
    "#7a8794",
    "#7fa832",
)
_MARKERS = "osD^vPX<>*"


@dataclass(frozen=True)
class Picture:
    """A picture in three forms.

    Attributes:
        name: of its files.
        title: its caption.
        inline: SVG to go into a page, in the page's text colour.
        svg: the same as a file, on white.
        pdf: for LaTeX.
    """

    name: str
    title: str
    inline: str
    svg: bytes
    pdf: bytes


class Palette:
    """A method's colour and marker, the same in all pictures."""

    def __init__(self, methods: Sequence[str]):
        self._number = {method: number for number, method in enumerate(dict.fromkeys(methods))}

    def colour(self, method: str) -> str:
        return _COLOURS[self._number[method] % len(_COLOURS)]

    def marker(self, method: str) -> str:
        return _MARKERS[self._number[method] % len(_MARKERS)]


def overview(measures: Measures, palette: Palette, number: int) -> Picture:
    """Every drafting method's block efficiency and speed-up, with intervals."""
    dataset, rows = measures.main, measures.group.rows
    shown = [
        row
        for row in rows
        if row.method != PLAIN and _known(measures, dataset, row, "tokens_per_second")
    ]

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        for axes, key, title in zip(
            panels, ("block_efficiency", SPEED_UP), ("block efficiency", "speed-up"), strict=True
        ):
            for place, row in enumerate(shown):
                e = measures.estimate(dataset, key, row)
                colour = palette.colour(row.method)
                axes.plot([e.low, e.high], [place, place], color=colour, linewidth=2.2, alpha=0.6)
                axes.plot([e.value], [place], palette.marker(row.method), color=colour)
            axes.axvline(1, color=_INK, linewidth=0.8, alpha=0.5)
            axes.set(xlabel=title, yticks=range(len(shown)), yticklabels=[str(r) for r in shown])
            axes.grid(axis="x")
            axes.tick_params(axis="y", length=0)
        panels[0].set_ylim(len(shown) - 0.4, -0.6)

    title = f"{measures.group}: block efficiency and speed-up, with 95% intervals"
    return picture(f"overview-{number}", title, (8.2, 1.0 + 0.27 * len(shown)), draw)


def time_split(measures: Measures, number: int) -> Picture:
    """Milliseconds per token by phase, as bars."""
    dataset, rows = measures.main, measures.group.rows
    shown = [r for r in rows if _known(measures, dataset, r, "tokens_per_second")]

    def draw(figure: Figure) -> None:
        axes: Any = figure.subplots()
        left = np.zeros(len(shown))
        times = [measures.estimate(dataset, "seconds_per_token", row).value for row in shown]
        untold = np.array([not _known(measures, dataset, row, "other_share") for row in shown])
        for phase, colour in zip(PHASES, _COLOURS, strict=False):
            shares = [measures.estimate(dataset, f"{phase}_share", row).value for row in shown]
            widths = np.nan_to_num(1e3 * np.array(times) * np.array(shares))
            axes.barh(range(len(shown)), widths, left=left, color=colour, label=phase, height=0.65)
            left += widths
        if untold.any():
            widths = 1e3 * np.array(times) * untold
            grey = _COLOURS[8]
            axes.barh(range(len(shown)), widths, color=grey, label="not told", height=0.65)
        axes.set(
            xlabel="ms per token", yticks=range(len(shown)), yticklabels=[str(r) for r in shown]
        )
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    title = f"{measures.group}: wall-clock time per token by phase"
    return picture(f"time-{number}", title, (8.2, 1.0 + 0.27 * len(shown)), draw)


def curves(found: Ablation, palette: Palette, number: int) -> Picture:
    """Block efficiency and speed-up along an axis; each method's largest speed-up ringed."""
    symbol = AXES[found.axis]

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        for axes, key, title in zip(
            panels, ("block_efficiency", SPEED_UP), ("block efficiency", "speed-up"), strict=True
        ):
            for curve in found.curves:
                at = [point.at(found.axis) for point in curve.points]
                estimates = [point.estimate(key) for point in curve.points]
                values = [e.value for e in estimates]
                colour, marker = palette.colour(curve.method), palette.marker(curve.method)
                axes.fill_between(
                    at,
                    [e.low for e in estimates],
                    [e.high for e in estimates],
                    color=colour,
                    alpha=0.15,
                    linewidth=0,
                )
                axes.plot(at, values, color=colour, marker=marker, ms=4, label=curve.method)
                peak = curve.peak() if key == SPEED_UP and found.axis != "temperature" else None
                if peak is not None:
                    axes.plot(
                        [at[peak[0]]],
                        [values[peak[0]]],
                        "o",
                        markersize=11,
                        markerfacecolor="none",
                        markeredgecolor=colour,
                    )
            for point in found.level:
                axes.axhline(
                    point.estimate(key).value,
                    color=palette.colour(point.method),
                    linestyle=":",
                    label=point.method,
                )
            if key == SPEED_UP:
                axes.axhline(1, color=_INK, linewidth=0.8, alpha=0.5)
            axes.set(xlabel=symbol, ylabel=title, xticks=found.values)
            axes.grid()
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")

    title = f"Along {symbol}: {found.where}"
    return picture(f"ablation-{number}", title, (9.2, 3.1), draw)


def methods_of(everything: Sequence[Measures]) -> list[str]:
    """Methods in order, plain decoding last: it is in few pictures."""
    methods = [row.method for measures in everything for row in measures.group.rows]
    return sorted(dict.fromkeys(methods), key=lambda method: method == PLAIN)


def _known(measures: Measures, dataset: str, row: Any, name: str) -> bool:
    value = measures.estimate(dataset, name, row).value
    return not np.isnan(value)


def picture(
    name: str, title: str, size: tuple[float, float], draw: Callable[[Figure], None]
) -> Picture:
    """A figure of this report's looks, in all its forms.

    Args:
        name: of its files.
        title: its caption.
        size: inches.
        draw: fills the figure.
    """
    # Else ids and dates differ from one writing to the next.
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        files = {}
        for kind, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, metadata=metadata, facecolor="white")
            files[kind] = buffer.getvalue()
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    inline = _inline(buffer.getvalue().decode(), name)
    return Picture(name, title, inline, files["svg"], files["pdf"])


def _inline(svg: str, name: str) -> str:
    """Only the element itself, with ids of its own and in the page's colour."""
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
