"""A report put together: sections of sentences, tables and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from multidraft.bench.report import plots, tables
from multidraft.bench.report.ablation import find_ablations
from multidraft.bench.report.bootstrap import LEAST_UNITS, RESAMPLES
from multidraft.bench.report.comparisons import check_baselines, compare_all
from multidraft.bench.report.graded import graded
from multidraft.bench.report.group import Group, make_groups
from multidraft.bench.report.load import Run
from multidraft.bench.report.measures import Measures
from multidraft.bench.report.memory import memory
from multidraft.bench.report.plots import Picture
from multidraft.bench.report.quality import (
    MARGIN,
    cut_off,
    not_graded,
    quality_rule,
    quality_table,
    quality_words,
)
from multidraft.bench.report.table import Table
from multidraft.bench.report.theory import theories
from multidraft.bench.report.theory_parts import theory_curves, theory_tables, theory_words
from multidraft.bench.report.words import incomplete, rule, smaller_batches, verdicts
from multidraft.errors import InvalidInput


@dataclass
class Section:
    """A heading and what is below it, in this order.

    Attributes:
        paragraphs: sentences.
        lists: by their heading, bullet points.
        parts: tables and pictures.
    """

    title: str
    paragraphs: list[str] = field(default_factory=list)
    lists: dict[str, list[str]] = field(default_factory=dict)
    parts: list[Table | Picture] = field(default_factory=list)


@dataclass
class Document:
    title: str
    subtitle: str
    sections: list[Section]
    stem: str = "report"  # of its files' names

    @property
    def tables(self) -> list[Table]:
        return [part for s in self.sections for part in s.parts if isinstance(part, Table)]

    @property
    def pictures(self) -> list[Picture]:
        return [part for s in self.sections for part in s.parts if isinstance(part, Picture)]


def make_document(run: Run, baselines: Sequence[str] = (), margin: float = MARGIN) -> Document:
    """Everything a run has to say.

    Args:
        run: see `load_run`.
        baselines: methods to hold the others against; see `check_baselines`.
        margin: the largest difference in accuracy that is called none.

    Raises:
        InvalidInput: a baseline the run does not have, or methods without a prompt in common.
    """
    groups = make_groups(run)
    against = check_baselines(baselines, groups)
    everything = [m for m in map(Measures, groups) if m.by_dataset]
    if not everything:
        raise InvalidInput(f"{run.name}: no prompt was decoded by every method; let it run longer.")
    palette = plots.Palette(plots.methods_of(everything))
    return Document(
        f"Benchmark: {run.name}",
        _subtitle(run),
        [
            _summary(everything, palette),
            _comparisons(everything, against),
            *_quality(run, groups, margin),
            _time(everything),
            *_ablations(everything, palette),
            *_theory(run),
            Section("Latency and memory", parts=[tables.waiting(groups), memory(run)]),
            *_published(everything),
            _how(run, groups),
        ],
    )


def _summary(everything: Sequence[Measures], palette: plots.Palette) -> Section:
    section = Section("Summary")
    for number, measures in enumerate(everything, start=1):
        section.parts.append(tables.summary(measures, number))
        section.parts.append(plots.overview(measures, palette, number))
        if measures.main not in measures.group.samples:
            section.parts.append(tables.by_dataset(measures, number))
    return section


def _comparisons(everything: Sequence[Measures], baselines: Sequence[str]) -> Section:
    section = Section("Which differences are established")
    found = compare_all(everything, baselines)
    if not found:
        section.paragraphs.append("There is no baseline to hold a method against.")
        return section
    section.paragraphs.append(rule(found))
    established, not_established = verdicts(found)
    section.lists["Established"] = established or ["None."]
    section.lists["Not established"] = not_established or ["None: every difference is established."]
    for number, measures in enumerate(everything, start=1):
        part = [c for c in found if c.measures is measures]
        if part:
            section.parts.append(tables.comparison(part, number))
    return section


def _quality(run: Run, groups: Sequence[Group], margin: float) -> Iterator[Section]:
    found = graded(run, groups)
    if found:
        section = Section("Quality", [quality_rule(found, margin)])
        section.paragraphs += [*cut_off(found, run.max_tokens), *not_graded(run)]
        section.lists = quality_words(found, margin)
        for number, group in enumerate(groups, start=1):
            part = [each for each in found if each.group is group]
            if part:
                section.parts.append(quality_table(part, margin, number))
        yield section


def _time(everything: Sequence[Measures]) -> Section:
    section = Section("Where the time goes")
    for number, measures in enumerate(everything, start=1):
        section.parts.append(plots.time_split(measures, number))
        section.parts.append(tables.split(measures, number))
    return section


def _ablations(everything: Sequence[Measures], palette: plots.Palette) -> Iterator[Section]:
    found = find_ablations(everything)
    if found:
        section = Section(
            "Draft length, number of drafts, temperature",
            ["Bands are 95% bootstrap intervals. A ring is a method's largest speed-up."],
        )
        for number, ablation in enumerate(found, start=1):
            section.parts.append(plots.curves(ablation, palette, number))
            section.parts += tables.ablation(ablation, number)
        yield section


def _theory(run: Run) -> Iterator[Section]:
    found = theories(run)
    if found:
        section = Section("Theory beside measurement", *theory_words(found))
        for number, theory in enumerate(found, start=1):
            section.parts.append(theory_curves(theory, number))
            section.parts += theory_tables(theory, number)
        yield section


def _published(everything: Sequence[Measures]) -> Iterator[Section]:
    table = tables.beside_published(everything)
    if table is not None:
        yield Section("Beside the published figures", parts=[table])


def _how(run: Run, groups: Sequence[Group]) -> Section:
    return Section(
        "How to read this",
        lists={
            "Definitions": [
                "Block efficiency: tokens emitted per target call, over full rounds alone. A round "
                "is full if the answer had room for L draft tokens and one more, and all it "
                "emitted was kept; with drafts of fixed length these are the rounds of depth L.",
                "Acceptance rate: accepted draft tokens / L, over full rounds.",
                "Tokens/s: tokens over all wall-clock seconds, prefill included. Speed-up: "
                "tokens/s over those of plain decoding (ar) on the same prompts.",
                "Each figure is a ratio of sums over prompts; the mean over data sets gives each "
                "of them the same weight. Of speeds (tokens/s, ms/token, speed-up, ratio) it is "
                "the geometric mean, so that it is the same ratio whichever method is below.",
            ],
            "Statistics": [
                f"Intervals: 95%, from {RESAMPLES:,} resamples of whole prompts within each data "
                "set, the same for all methods of a table; expanded percentiles. None with fewer "
                f"than {LEAST_UNITS} prompts. Prompts decoded in one batch are resampled together.",
                "Tests: sign flips of each prompt's difference (in tokens per target call, or in "
                "the logarithm of tokens/s), two-sided. They give each prompt the same weight.",
            ],
            "Left out": [*_failures(run), *incomplete(groups)] or ["Nothing."],
            "The run": [*_facts(run), *smaller_batches(run)],
        },
    )


def _failures(run: Run) -> Iterator[str]:
    counts = Counter((r.cell.method, r.cell.dataset, r.error) for r in run.failed)
    for (method, dataset, error), count in counts.most_common():
        times = "generation" if count == 1 else "generations"
        yield f"{method} on {dataset}: {count} {times} failed ({error.rstrip('.')})."
    if run.repeated:
        yield f"{run.repeated} records that were there already."


def _subtitle(run: Run) -> str:
    cells = [record.cell for record in run.records]
    counts = [
        f"{len(values)} {name}{'' if len(values) == 1 else 's'}"
        for name, values in (
            ("pair", {cell.pair for cell in cells}),
            ("data set", {cell.dataset for cell in cells}),
            ("method", {cell.method for cell in cells}),
        )
    ]
    return f"{', '.join(counts)}; {len(cells):,} generations, {len(run.failed):,} failed"


def _facts(run: Run) -> list[str]:
    manifest, config = run.manifest, run.config
    facts = []
    for pair in config.get("pairs", []):
        draft = f", draft {pair['draft']}" if pair.get("draft") else ""
        facts.append(f"Pair {pair['name']}: target {pair['target']}{draft}.")
    asked = [
        f"{key} {config[key]}" for key in ("max_tokens", "repetitions", "seed") if key in config
    ]
    facts.append(f"Requests: {', '.join(asked)}.")
    machine = {key: value for key, value in manifest.get("machine", {}).items() if value}
    if "memory" in machine:
        machine["memory"] = f"{machine['memory'] / 1e9:.0f} GB"
    for name, values in (("Machine", machine), ("Versions", manifest.get("versions", {}))):
        if values:
            facts.append(f"{name}: {', '.join(f'{key} {value}' for key, value in values.items())}.")
    sessions = manifest["sessions"]
    if sessions and sessions[0].get("started"):
        more = f", resumed {len(sessions) - 1} times" if len(sessions) > 1 else ""
        facts.append(f"Started {sessions[0]['started']}{more}.")
    return facts
