"""A run folder, read for a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multidraft.bench.folder import read_manifest, read_records
from multidraft.bench.records import Record
from multidraft.errors import InvalidInput


@dataclass(frozen=True)
class Run:
    """What a run left behind.

    Attributes:
        name: of its folder.
        manifest: see `multidraft.bench.manifest`.
        records: generations that succeeded, each once.
        failed: generations that did not, each once.
        repeated: records left out as they were there already.
    """

    name: str
    manifest: dict[str, Any]
    records: list[Record]
    failed: list[Record]
    repeated: int

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.manifest.get("config", {})
        return config

    @property
    def max_tokens(self) -> int:
        """Most tokens of an answer."""
        return int(self.config["max_tokens"])

    def in_order(self, key: str, seen: Iterable[str]) -> list[str]:
        """Distinct names in the order the configuration has them under ``key``, others after."""
        names = list(dict.fromkeys(seen))
        listed = [
            value["name"] if isinstance(value, dict) else value
            for value in self.config.get(key, [])
        ]
        return sorted(names, key=lambda n: listed.index(n) if n in listed else len(listed))


def load_run(path: Path) -> Run:
    """Read a run folder, be it finished or not.

    Raises:
        InvalidInput: it is none, it cannot be read, or no generation in it succeeded.
    """
    manifest = read_manifest(path)
    if manifest is None:
        raise InvalidInput(f"{path} is no run's folder; give one that `bench run` wrote to.")
    if "max_tokens" not in manifest.get("config", {}):
        raise InvalidInput(
            f"{path}: its manifest lacks config.max_tokens, so rounds cannot be told."
        )
    records: dict[Any, Record] = {}
    repeated = 0
    for record in read_records(path):
        repeated += record.key in records
        records.setdefault(record.key, record)
    good = [record for record in records.values() if not record.error]
    if not good:
        raise InvalidInput(f"{path} has no finished generation yet; run it first.")
    failed = [record for record in records.values() if record.error]
    return Run(path.resolve().name, manifest, good, failed, repeated)
