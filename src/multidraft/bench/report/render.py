"""A document as HTML, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from multidraft.bench.report.document import Document
from multidraft.bench.report.table import Table

_LABELS = (
    "pair",
    "dataset",
    "method",
    "num_drafts",
    "draft_length",
    "temperature",
    "batch",
    "baseline",
)
_TEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "Δ": r"$\Delta$",
    "×": r"$\times$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "$-$",
    "…": r"\dots{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def render(document: Document) -> dict[str, bytes]:
    """Every file of a report, by its path within the folder."""
    files = {
        f"{document.stem}.html": _template("report.html").render(document=document),
        f"{document.stem}.md": _template("report.md").render(document=document),
        f"{document.stem}.tex": _template("report.tex").render(document=document),
        f"{document.stem}.csv": _csv(document),
    }
    for table in document.tables:
        files[f"tables/{table.name}.tex"] = _template("table.tex").render(table=table)
    written = {name: text.encode() for name, text in files.items()}
    for picture in document.pictures:
        written[f"figures/{picture.name}.svg"] = picture.svg
        written[f"figures/{picture.name}.pdf"] = picture.pdf
    return written


def _csv(document: Document) -> str:
    """Tidy: a line for each number, with its interval where it has one."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["table", *_LABELS, "measure", "value", "low", "high"])
    for table in document.tables:
        for keys, measure, number in table.numbers():
            labels = [keys.get(label, "") for label in _LABELS]
            limits = [_exact(x) for x in (number.value, number.low, number.high)]
            writer.writerow([table.name, *labels, measure, *limits])
    return file.getvalue()


def _exact(number: float) -> str:
    return "" if number != number else f"{number:.6g}"


@cache
def _environment(kind: str) -> Environment:
    # TeX is full of braces, so its templates have other marks.
    marks = {
        "block_start_string": "<%",
        "block_end_string": "%>",
        "variable_start_string": "<<",
        "variable_end_string": ">>",
        "comment_start_string": "<#",
        "comment_end_string": "#>",
    }
    environment = Environment(
        loader=PackageLoader("multidraft.bench.report"),
        autoescape=kind == "html",
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **(marks if kind == "tex" else {}),  # type: ignore[arg-type]
    )
    environment.filters["tex"] = _tex
    environment.filters["head"] = _tex_head
    environment.filters["md"] = _markdown
    environment.tests["table"] = lambda part: isinstance(part, Table)
    return environment


def _template(name: str) -> Template:
    return _environment(name.rpartition(".")[2]).get_template(f"{name}.j2")


def _tex(text: str) -> str:
    # A data set's words may be in any script, and pdflatex stops at letters it has no font for.
    known = (character if ord(character) < 0x180 else "?" for character in text)
    return "".join(_TEX.get(c, k) for c, k in zip(text, known, strict=True))


def _tex_head(title: str) -> str:
    """A column's head, what is in brackets below the rest."""
    above, bracket, below = _tex(title).partition(" (")
    return rf"\shortstack[r]{{{above}\\({below}}}" if bracket else above


def _markdown(text: str) -> str:
    for character in "\\|*_<":
        text = text.replace(character, f"\\{character}")
    return text
