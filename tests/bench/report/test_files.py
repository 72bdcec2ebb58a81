"""The files of a report: the same numbers in all, readable alone, and never half-written."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import typer
from typer.testing import CliRunner

from multidraft.bench.report import files
from multidraft.bench.report.files import write_report
from multidraft.cli.bench_report import report
from multidraft.errors import InvalidInput
from tests.bench.report.synthetic import run_records, write_run

METHODS = {"ar": 0.0, "token": 0.6, "spectr-gbv": 0.7, "transformers:plain": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("run_1 & 2")
    records = run_records(METHODS, ("humaneval", "gsm8k"), 8, lengths=(2, 4))
    records[0] = replace(records[0], error="No room for 日本語, 100% of <|x_1|> & {y}~^\\.")
    write_run(path, records)
    write_report(path, path / "report", [])
    return path / "report"


class _Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.cells = [], [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[k] for k in ("src", "href", "xlink:href") if k in values]
        self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "td" in self.open:
            self.cells[-1] += data


def test_page_needs_nothing_but_itself(folder):
    text = (folder / "report.html").read_text()
    page = _Page()
    page.feed(text)
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"@import|url\((?!#)|<script|<link", text)
    assert "prefers-color-scheme: dark" in text and "currentColor" in text
    assert "run_1 &amp; 2" in text


def test_all_formats_have_the_same_numbers(folder):
    page = _Page()
    page.feed((folder / "report.html").read_text())
    markdown = (folder / "report.md").read_text()
    rows = [line for line in markdown.splitlines() if line.startswith("| ") and "---" not in line]
    in_markdown = {c.strip(" |").replace("\\", "") for row in rows for c in row.split(" | ")}
    with (folder / "report.csv").open() as file:
        numbers = list(csv.DictReader(file))
    tex = (folder / "tables" / "summary-1.tex").read_text()
    summary = [n for n in numbers if n["table"] == "summary-1" and n["measure"] == "speed_up"]
    assert len(summary) == 6 and {n["dataset"] for n in summary} == {"mean"}
    for number in summary:
        text = f"{float(number['value']):.2f}"
        if number["low"] != number["high"]:
            limits = f"[{float(number['low']):.2f}, {float(number['high']):.2f}]"
            assert f"{text} {limits}" in page.cells and f"{text} {limits}" in in_markdown
            assert f"{text} {{\\scriptsize {{{limits}}}}}" in tex
    drafted = next(n for n in summary if n["method"] == "spectr-gbv" and n["draft_length"] == "4")
    assert (drafted["num_drafts"], drafted["temperature"], drafted["pair"]) == ("3", "1.0", "pair")


def test_csv_tells_every_number_apart(folder):
    with (folder / "report.csv").open() as file:
        rows = [tuple(row[:10]) for row in csv.reader(file)]
    assert len(rows) == len(set(rows)) > 100


def test_markdown_shows_the_pictures(folder):
    for picture in re.findall(r"\]\((.*?)\)", (folder / "report.md").read_text()):
        assert (folder / picture).read_text().startswith("<?xml")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX")
def test_latex_compiles(folder, tmp_path):
    done = subprocess.run(
        [
            "pdflatex",
            "-interaction=nonstopmode",
            "-halt-on-error",
            "-draftmode",
            f"-output-directory={tmp_path}",
            "report.tex",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_writing_again_gives_the_same(folder):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_report(folder.parent, folder, [])
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_failure_leaves_the_earlier_report(folder, monkeypatch):
    before = (folder / "report.html").read_bytes()
    monkeypatch.setattr(files, "render", lambda _: {"report.html": b"new", "no/folder.tex": b""})
    with pytest.raises(InvalidInput, match="Cannot write"):
        write_report(folder.parent, folder, [])
    assert (folder / "report.html").read_bytes() == before
    assert not list(folder.rglob("*.new"))


def test_a_first_report_that_fails_leaves_nothing_in_the_way(folder, tmp_path, monkeypatch):
    out = tmp_path / "new"
    with monkeypatch.context() as patch:
        patch.setattr(files, "render", lambda _: {"report.html": b"new", "no/folder.tex": b""})
        with pytest.raises(InvalidInput, match="Cannot write"):
            write_report(folder.parent, out, [])
    write_report(folder.parent, out, [])
    assert (out / "report.html").read_bytes() == (folder / "report.html").read_bytes()


def test_what_only_the_earlier_report_had_is_removed(folder, monkeypatch, tmp_path):
    folder = shutil.copytree(folder.parent, tmp_path / "run") / "report"
    kept = {"report.html": b"new", "tables/summary-1.tex": b"new", "figures/one.svg": b"new"}
    (folder / "tables" / "notes.txt").write_text("mine")
    (folder / "tables" / "mine.tex").write_text("mine")
    monkeypatch.setattr(files, "render", lambda _: kept)
    write_report(folder.parent, folder, [])
    below = {path.name for part in ("figures", "tables") for path in (folder / part).iterdir()}
    assert below == {"summary-1.tex", "one.svg", "notes.txt", "mine.tex"}


def test_other_folders_are_left_alone(folder, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InvalidInput, match="not empty and holds no report"):
        write_report(folder.parent, tmp_path, [])


def test_command(folder, tmp_path):
    app = typer.Typer()
    app.command()(report)
    arguments = [str(folder.parent), "--out", str(tmp_path / "new"), "--baseline", "token"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert str(tmp_path / "new" / "report.html") in done.output.replace("\n", "")
    assert "against ar" not in (tmp_path / "new" / "report.md").read_text()
