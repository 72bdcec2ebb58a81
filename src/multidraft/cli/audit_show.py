"""Showing audits: progress while they sample, and what they found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from multidraft.audit.alphabet import text_of
from multidraft.audit.onoff import OnOffReport
from multidraft.audit.proof import Proof
from multidraft.audit.report import Heard, Report
from multidraft.audit.setting import Setting
from multidraft.audit.suite import Entry

_STYLES = {"LOSSLESS": "bold green", "BIASED": "bold red", "UNDECIDED": "bold yellow"}
_RIGHT: dict[str, Any] = {"justify": "right", "no_wrap": True}


@contextmanager
def sampling(engine: str) -> Iterator[Callable[..., None]]:
    """Shows progress on standard error, where that is a terminal: ``tell(heard, what)``."""
    with Console(stderr=True).status(f"Starting {escape(engine)}") as status:

        def tell(heard: Heard, what: str = engine) -> None:
            name = escape(what)
            rate = heard.samples / heard.seconds if heard.seconds else math.inf
            left = (heard.planned - heard.samples) / rate
            status.update(
                f"{name}: {heard.samples:,} of {heard.planned:,} samples, {left:.0f} s left "
                "at most; Ctrl-C tests what there is"
            )

        yield tell


def verdict_line(report: Report) -> str:
    if report.verdict == "LOSSLESS":
        return f"LOSSLESS (no bias above {report.detectable:.3f})"
    return report.verdict


def describe(setting: Setting) -> str:
    """The sampling part of a setting, in words."""
    parts = [f"temperature {setting.temperature:g}"]
    parts += [f"top_p {setting.top_p:g}"] if setting.top_p < 1 else []
    parts += [f"top_k {setting.top_k}"] if setting.top_k else []
    parts += [f"min_p {setting.min_p:g}"] if setting.min_p else []
    return ", ".join([*parts, f"{setting.num_tokens} tokens", f"batch {setting.batch}"])


def print_report(report: Report) -> None:
    out = Console(highlight=False, soft_wrap=True)
    out.print(f"{report.engine}; {describe(report.setting)}", markup=False)
    out.print()
    out.print(verdict_line(report), style=_STYLES[report.verdict], markup=False)
    out.print()
    for name, text in _figures(report):
        out.print(f"{name:<16} {text}", markup=False)
    out.print()
    if report.excluded:
        total = sum(count for _, count in report.excluded)
        shown = ", ".join(f"{text_of(t)} ({n}×)" for t, n in report.excluded[:5])
        out.print(f"{total} answers that the law excludes: {shown}", markup=False)
        out.print()
    if any(outcome.degrees for outcome in report.outcomes):
        out.print(_tests(report))
    if report.worst:
        out.print()
        out.print(_worst(report))


def _figures(report: Report) -> list[tuple[str, str]]:
    tv = report.variation
    once = f"a lossless engine is called BIASED once in {1 / report.alpha:,.0f} audits"
    return [
        ("p-value", f"{report.p_value:.3g} ({once})"),
        ("total variation", f"{tv.estimate:.4f} (95% interval {tv.low:.4f} to {tv.high:.4f})"),
        ("would have caught", f"{report.detectable:.4f} with 99% probability"),
        ("samples", f"{report.samples:,} of {report.planned:,} in {report.seconds:.0f} s"),
    ]


def _tests(report: Report) -> Table:
    table = Table(
        Column("test", no_wrap=True),
        Column("df", **_RIGHT),
        Column("G", **_RIGHT),
        Column("p", **_RIGHT),
        box=None,
        pad_edge=False,
    )
    for o in report.outcomes:
        table.add_row(o.name, str(o.degrees), f"{o.statistic:.1f}", f"{o.p_value:.3g}")
    return table


def _worst(report: Report) -> Table:
    table = Table(
        Column("furthest", no_wrap=True),
        Column("observed", **_RIGHT),
        Column("expected", **_RIGHT),
        box=None,
        pad_edge=False,
    )
    for cell in report.worst:
        shown = f"{text_of(cell.prompt)} {text_of(cell.tokens)}"
        table.add_row(shown, f"{cell.observed:,}", f"{cell.expected:,.1f}")
    return table


def to_dict(report: Report) -> dict[str, Any]:
    """A report as JSON values; tokens as ids."""
    setting = report.setting
    return {
        "engine": report.engine,
        "verdict": report.verdict,
        "p_value": report.p_value,
        "alpha": report.alpha,
        "total_variation": asdict(report.variation),
        "detectable": report.detectable,
        "samples": report.samples,
        "planned": report.planned,
        "seconds": report.seconds,
        "setting": {
            "temperature": setting.temperature,
            "top_p": setting.top_p,
            "top_k": setting.top_k,
            "min_p": setting.min_p,
            "num_tokens": setting.num_tokens,
            "num_drafts": setting.num_drafts,
            "draft_length": setting.draft_length,
            "batch": setting.batch,
        },
        "tests": [asdict(outcome) for outcome in report.outcomes],
        "excluded": [{"tokens": list(t), "count": n} for t, n in report.excluded],
        "furthest": [asdict(cell) for cell in report.worst],
    }


def suite_table(entries: Sequence[Entry]) -> Table:
    """A row per setting; TV is the total variation with its interval."""
    table = Table(
        Column("setting", no_wrap=True),
        Column("verdict", no_wrap=True),
        Column("p", **_RIGHT),
        Column("TV", **_RIGHT),
        Column("95% interval", **_RIGHT),
        Column("catches", **_RIGHT),
        Column("samples", **_RIGHT),
        Column("s", **_RIGHT),
        box=None,
        pad_edge=False,
        collapse_padding=True,
        caption="catches: the bias that would have been found with 99% probability",
        caption_justify="left",
    )
    for entry in entries:
        r = entry.report
        if r is None:
            table.add_row(entry.variation.name, "FAILED")
            table.add_row("", Text(entry.error, overflow="fold", no_wrap=False))
            continue
        table.add_row(
            entry.variation.name,
            Text(r.verdict, style=_STYLES[r.verdict]),
            f"{r.p_value:.2g}",
            f"{r.variation.estimate:.3f}",
            f"{r.variation.low:.3f}-{r.variation.high:.3f}",
            f"{r.detectable:.3f}",
            f"{r.samples:,}",
            f"{r.seconds:.0f}",
        )
    return table


def entry_to_dict(entry: Entry) -> dict[str, Any]:
    found = to_dict(entry.report) if entry.report else {"verdict": "FAILED", "error": entry.error}
    return {"name": entry.variation.name, "distance": entry.variation.distance, **found}


def proof_table(proofs: list[Proof]) -> Table:
    table = Table(
        Column("laws", no_wrap=True),
        Column("verifier", no_wrap=True),
        Column("K", **_RIGHT),
        Column("error", **_RIGHT),
        Column("accepted", **_RIGHT),
        Column("bound", **_RIGHT),
        Column("closed form", **_RIGHT),
        Column("exact", no_wrap=True),
        box=None,
        pad_edge=False,
    )
    previous = None
    for p in proofs:
        if previous is not None and p.case != previous:
            table.add_section()
        table.add_row(
            p.case.name if p.case != previous else "",
            p.verifier,
            str(p.num_drafts),
            f"{p.max_error:.0e}",
            f"{p.accepted:.4f}",
            f"{p.bound:.4f}",
            f"{p.closed_form:.4f}",
            "yes" if p.exact else "NO",
        )
        previous = p.case
    return table


def proof_to_dict(proof: Proof) -> dict[str, Any]:
    return {**asdict(proof), "exact": proof.exact}


@contextmanager
def comparing(engine: str) -> Iterator[Callable[[int, int], None]]:
    """Progress of both runs of a comparison."""
    name = escape(engine)
    with Console(stderr=True).status(f"Starting {name}") as status:
        yield lambda done, planned: status.update(f"{name}: {done:,} of {planned:,} samples")


def print_on_off(report: OnOffReport, decode: Callable[[Sequence[int]], str]) -> None:
    out = Console(highlight=False, soft_wrap=True)
    out.print(f"{report.on}\nagainst {report.off}", markup=False)
    out.print()
    test = report.test
    same = f"SAME (no difference above {test.detectable:.3f})"
    styles = {"SAME": "bold green", "DIFFERENT": "bold red", "UNDECIDED": "bold yellow"}
    out.print(same if report.verdict == "SAME" else report.verdict, style=styles[report.verdict])
    out.print()
    once = f"engines that agree are called DIFFERENT once in {1 / report.alpha:,.0f} runs"
    for name, text in (
        ("p-value", f"{test.p_value:.3g} ({once})"),
        ("would have caught", f"{test.detectable:.3f} with 99% probability, prompts averaged"),
        ("samples", f"{report.samples:,} of {report.planned:,} each way"),
    ):
        out.print(f"{name:<17} {text}", markup=False)
    out.print()
    table = Table(
        Column("furthest", overflow="fold"),
        Column("prompt", **_RIGHT),
        Column("on", **_RIGHT),
        Column("off", **_RIGHT),
        box=None,
        pad_edge=False,
    )
    for prompt, tokens, on, off in test.worst:
        table.add_row(Text(repr(decode(list(tokens)))), str(prompt + 1), str(on), str(off))
    out.print(table)


def on_off_to_dict(report: OnOffReport) -> dict[str, Any]:
    return asdict(report)
