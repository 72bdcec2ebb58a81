"""The cache folder, and the few file operations that keep it free of half-made things."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from multidraft.errors import ModelUnavailable

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows has no quotas
_REFUSED = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EIO,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EEXIST,
}


def cache_folder() -> Path:
    """Where models are kept: ``MULTIDRAFT_CACHE``, else a folder in the platform's user cache."""
    if chosen := os.environ.get("MULTIDRAFT_CACHE"):
        return Path(chosen).expanduser().resolve()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "multidraft"


def folder_bytes(folder: Path) -> int:
    """Size of all files below ``folder``; files that vanish meanwhile count nothing."""
    total = 0
    for below, _, files in os.walk(folder):  # unlike rglob, it passes over folders that vanish
        for name in files:
            with suppress(OSError):
                total += Path(below, name).stat().st_size
    return total


def show_bytes(count: int) -> str:
    """A size for people, in powers of 1000: ``1.12 GB``."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= 0.9995 * size:  # 999.7 MB are 1 GB in three digits
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def require_space(folder: Path, needed: int) -> None:
    """Raise ModelUnavailable when the disk of ``folder`` has less than ``needed`` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelUnavailable(
            f"Not enough disk space in {folder}: {show_bytes(needed)} are needed and "
            f"{show_bytes(free)} are free; free some, or set MULTIDRAFT_CACHE to another disk."
        )


@contextmanager
def writing(folder: Path, setting: str = "MULTIDRAFT_CACHE") -> Iterator[None]:
    """Turn what the disk refuses while writing below ``folder`` into a ModelUnavailable that
    names the environment variable ``setting``, which moves the folder.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ModelUnavailable(
                f"The disk of {folder} is full; free some space, or set {setting} to another "
                "disk, and run the same command again."
            ) from error
        if error.errno in _REFUSED:
            raise ModelUnavailable(
                f"The cache folder {folder} cannot be written ({error.strerror}); set {setting} "
                "to a folder that can."
            ) from error
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of ``path`` once it is finished; of one that is not
    nothing is left."""
    new = path.with_name(f".{path.name}.new")
    try:
        yield new
        new.replace(path)  # in one step: a kill leaves the old one or the new one
    finally:
        new.unlink(missing_ok=True)


def publish(made: Path, target: Path) -> None:
    """Move a finished folder to where it is looked for, in one step that survives a power cut."""
    for path in made.rglob("*"):
        if path.is_file():
            _flush(path)
    _flush(made)
    target.parent.mkdir(parents=True, exist_ok=True)
    made.rename(target)
    _flush(target.parent)


def _flush(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder
    # Windows flushes only files opened for writing.
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
