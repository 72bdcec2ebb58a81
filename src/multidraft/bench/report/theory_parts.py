"""The part of a report on theory beside measurement: words, tables and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from multidraft.bench.report.measures import MEAN
from multidraft.bench.report.plots import Palette, Picture, picture
from multidraft.bench.report.table import (
    DATASET,
    DRAFT_LENGTH,
    METHOD,
    NUM_DRAFTS,
    Column,
    Table,
    Value,
)
from multidraft.bench.report.theory import Measurement, Theory
from multidraft.bench.theory.acceptance import HYBRID, KINDS, OPTIMUM, SPECINFER, SPECTR

_NAMES = {
    OPTIMUM: "K drawn, the optimum",
    SPECTR: "K drawn, K-SEQ (spectr)",
    SPECINFER: "K drawn, recursive rejection (specinfer)",
    HYBRID: "K − 1 chosen and one drawn, the optimum (hybrid)",
}
_ACCEPTANCE = [Column(k, _NAMES[k], ".3f", measure=f"first_token_{k}") for k in KINDS]
_MEASURED = [
    Column("rounds", "rounds"),
    Column("measured", "measured", ".3f", measure="first_token_measured"),
    Column("expected", "theory, same places", ".3f", measure="first_token_expected"),
    Column("difference", "difference", "+.3f", measure="first_token_difference"),
]


def theory_words(found: Sequence[Theory]) -> tuple[list[str], dict[str, list[str]]]:
    """Paragraphs on what was computed, and points on what may be compared."""
    texts = sum(sum(each.texts.values()) for each in found)
    places = sum(sum(each.places.values()) for each in found)
    paragraphs = [
        "The probability that one of K draft tokens is accepted at a place of a text, computed "
        f"from both models' laws there: at {_count(places, 'place')} of {_count(texts, 'text')} of "
        f"{found[0].method}, whose law is the target's as that of all methods is. For K = 1 all "
        "are the overlap of the two laws, what standard speculative sampling accepts. The optimum "
        "of K drawn independently is what no verifier exceeds; chosen are the draft's likeliest "
        "tokens."
    ]
    left_out = sum(each.left_out for each in found)
    if left_out:
        paragraphs.append(
            f"Left out: {_count(left_out, 'text')}. Records hold text, and encoded again it has "
            "another number of tokens there."
        )
    return paragraphs, {
        "What may be compared": [
            "token, specinfer and spectr judge the first token by itself, by the target's own law, "
            "so each of their rounds accepts it with the probability computed where the round "
            "began. Measured and expected shares are of the same rounds and differ by chance "
            "alone, and by the rounding of laws: the engine computes them in other batch shapes.",
            "The table over K is of all places of a text, and rounds do not begin at all alike, so "
            "a measured share is not to be held against it.",
            "block, multipath and traversal judge a draft as a whole: whether its first token "
            "stays depends on those after it. greedy-block and spectr-gbv carry a rewritten law "
            "into later rounds. hybrid, lookup and union decide at each place how many tokens to "
            "draft. None of them is measured here.",
            "At temperature 0 the target's law is a point mass, and nothing is computed.",
        ]
    }


def theory_tables(found: Theory, number: int) -> list[Table]:
    """Acceptance by K, and what was measured where it can be compared."""
    keys: dict[str, Value] = {"pair": found.pair, "temperature": found.temperature}
    sets = [dataset for dataset in found.acceptance if dataset != found.main]
    over = found.main if found.main != MEAN else f"mean over {len(sets)} data sets"
    title = "acceptance of the first draft token, with 95% intervals"
    tables = [
        Table(
            f"theory-{number}",
            f"{found}: {title}, {over}",
            (NUM_DRAFTS, *_ACCEPTANCE),
            _by_drafts(found, found.main),
            {**keys, "dataset": found.main},
        )
    ]
    if sets:
        each = [{"dataset": d, **row} for d in sets for row in _by_drafts(found, d)]
        columns = (DATASET, NUM_DRAFTS, *_ACCEPTANCE)
        name = f"theory-datasets-{number}"
        tables.append(Table(name, f"{found}: {title}, each data set", columns, each, keys))
    if found.measurements:
        columns = (DATASET, METHOD, NUM_DRAFTS, DRAFT_LENGTH, *_MEASURED)
        rows = [_measured(each) for each in found.measurements]
        title = "share of rounds that accepted their first draft token"
        tables.append(Table(f"theory-measured-{number}", f"{found}: {title}", columns, rows, keys))
    return tables


def theory_curves(found: Theory, number: int) -> Picture:
    """Acceptance by K."""
    palette = Palette(KINDS)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for kind in KINDS:
            measured = found.acceptance[found.main][kind]
            at = range(1, len(measured.values) + 1)
            estimates = [measured.estimate(k - 1) for k in at]
            low, high = [e.low for e in estimates], [e.high for e in estimates]
            colour = palette.colour(kind)
            axes.fill_between(at, low, high, color=colour, alpha=0.12, linewidth=0)
            values = [e.value for e in estimates]
            axes.plot(
                at, values, color=colour, marker=palette.marker(kind), ms=4, label=_NAMES[kind]
            )
        axes.set(xlabel="K", ylabel="acceptance of the first token", xticks=at)
        axes.grid()
        figure.legend(loc="outside right center")

    title = f"{found}: acceptance of the first draft token, in theory"
    return picture(f"theory-{number}", title, (8.2, 3.2), draw)


def _by_drafts(found: Theory, dataset: str) -> list[dict[str, Value]]:
    acceptance = found.acceptance[dataset]
    most = len(acceptance[OPTIMUM].values)
    return [
        {"num_drafts": k, **{kind: acceptance[kind].estimate(k - 1) for kind in KINDS}}
        for k in range(1, most + 1)
    ]


def _measured(each: Measurement) -> Mapping[str, Value]:
    return {
        "dataset": each.dataset,
        "method": each.row.method,
        "num_drafts": each.row.num_drafts,
        "draft_length": each.row.draft_length,
        "rounds": each.rounds,
        "measured": each.measured,
        "expected": each.expected,
        "difference": each.difference,
    }


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
