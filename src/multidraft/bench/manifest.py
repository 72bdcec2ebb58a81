"""What was run and on what: enough to tell whether two runs may be counted together."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch

import multidraft
from multidraft.bench.config import Config
from multidraft.bench.data import Example, fingerprint
from multidraft.bench.peers.installed import peer_versions
from multidraft.cores import usable_cores
from multidraft.errors import InvalidInput

#: Parts that must be the same when a run is resumed; the rest is for readers.
_MATTERS = ("config", "data", "models", "versions", "machine")
# Where files lie does not matter: their content or version is checked. Memory only has to do.
_FREE = ("config.data_dir", "config.vllm_python", "machine.memory")


def make_manifest(
    config: Config,
    folders: Mapping[str, Path],
    chosen: Mapping[str, Sequence[Example]],
) -> dict[str, Any]:
    """The manifest of a run about to start.

    Args:
        folders: of each model, by the name the configuration gives it.
        chosen: the prompts by data set.

    Returns:
        Plain values for JSON. ``sessions`` has one entry per start of the run.

    Raises:
        InvalidInput: a peer is not installed, or a list of a draft's head cannot be read.
    """
    lists = [pair.head_list for pair in config.pairs if pair.head_list is not None]
    return {
        "config": config.to_dict(),
        "data": {
            name: {"prompts": len(examples), "sha256": fingerprint(examples)}
            for name, examples in chosen.items()
        },
        "models": {
            **{name: checksums(folder) for name, folder in folders.items()},
            **{str(file): list_checksum(file) for file in lists},
        },
        "versions": {
            "multidraft": multidraft.__version__,
            "torch": torch.__version__,
            "transformers": version("transformers"),
            "python": platform.python_version(),
            **peer_versions(config.methods, config.vllm_python),
        },
        "machine": machine(),
        "sessions": [
            {"started": datetime.now(UTC).isoformat(timespec="seconds"), "revision": revision()}
        ],
    }


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first thing that matters and differs, in words; "" if nothing does."""
    before, after = (
        dict(_flat({key: manifest.get(key) for key in _MATTERS})) for manifest in (old, new)
    )
    for key in [*after, *before]:
        if before.get(key) != after.get(key) and key not in _FREE:
            return f"{key} was {before.get(key)!r} and now is {after.get(key)!r}"
    return ""


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a model's folder, by name."""
    return {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.is_file()}


def list_checksum(file: Path) -> dict[str, str]:
    """The same of a list of tokens for a draft's head.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        return {file.name: _sha256(file)}
    except OSError as error:
        raise InvalidInput(f"Cannot read the list of tokens {file}: {error.strerror}.") from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def machine() -> dict[str, Any]:
    """Processor, the cores and threads in use, memory in bytes, and the GPU ("" for none)."""
    return {
        "cpu": _cpu_name(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "memory": psutil.virtual_memory().total,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
    }


def revision() -> str:
    """This package's git revision, "-dirty" if changed since; "" where it is no checkout."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ("git", "-C", str(here), *arguments), capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        # An installed package may lie inside somebody else's checkout.
        git("ls-files", "--error-unmatch", "records.py")
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []  # not Linux
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
