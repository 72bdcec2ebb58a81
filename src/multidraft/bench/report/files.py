"""A report's files on disk, each whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from multidraft.bench.report.document import make_document
from multidraft.bench.report.load import load_run
from multidraft.bench.report.quality import MARGIN
from multidraft.bench.report.render import render
from multidraft.errors import InvalidInput

#: The page of a report, and of a prediction: neither is written over the other.
PAGE, PREDICTION = "report.html", "predicted.html"
#: What is written below it.
_FOLDERS = ("figures", "tables")
#: In a report's folder, the names of its files: what is not there the next time is removed.
_LIST = ".written"


def write_report(run: Path, out: Path, baselines: list[str], margin: float = MARGIN) -> list[str]:
    """Write the report of a run folder into another folder.

    Args:
        run: the run folder.
        out: a new or empty folder, or one with an earlier report, whose files are replaced;
            figures and tables that only that one had are removed.
        baselines, margin: see `make_document`.

    Returns:
        The files written, within ``out``.

    Raises:
        InvalidInput: as `load_run` and `make_document`, or ``out`` cannot be written to.
    """
    check_out(out)
    return write_files(out, render(make_document(load_run(run), baselines, margin)))


def check_out(out: Path, page: str = PAGE) -> None:
    """Refuse a folder that holds anything but an earlier report with such a page.

    Raises:
        InvalidInput: it does, or is a file.
    """
    if out.exists() and not out.is_dir():
        raise InvalidInput(f"{out} is a file; choose a folder with --out.")
    if out.is_dir() and any(out.iterdir()) and not (out / page).is_file():
        raise InvalidInput(f"{out} is not empty and holds no {page}; choose another --out.")


def write_files(out: Path, files: Mapping[str, bytes], page: str = PAGE) -> list[str]:
    """Write a rendered document into a folder, and return the names of the files.

    ``page`` is the one by which a folder of its kind is known.

    Raises:
        InvalidInput: as `check_out`, or it cannot be written to.
    """
    check_out(out, page)
    try:
        _write(out, files, page)
    except OSError as error:
        raise InvalidInput(f"Cannot write to {out}: {error.strerror}.") from None
    return list(files)


def _write(out: Path, files: Mapping[str, bytes], page: str) -> None:
    new = {name: out / f"{name}.new" for name in files}
    try:
        for folder in _FOLDERS:
            (out / folder).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            new[name].write_bytes(content)
        # Only now does anything of an earlier report go; the page first, so that a folder in which
        # this was cut short is still known for a report's.
        for name in sorted(files, key=lambda name: name != page):
            new[name].replace(out / name)
        listed = out / _LIST
        before = listed.read_text().splitlines() if listed.is_file() else []
        listed.write_text("".join(f"{name}\n" for name in sorted(files)))
        for name in set(before) - set(files):
            (out / name).unlink(missing_ok=True)
    finally:
        for path in new.values():
            path.unlink(missing_ok=True)
        for folder in _FOLDERS:  # where nothing came of it, the next time finds `out` empty
            with suppress(OSError):  # it is not empty, or never was there
                (out / folder).rmdir()
