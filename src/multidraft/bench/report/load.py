"""A run folder, read for a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multidraft.bench.folder import read_manifest, read_records
from multidraft.bench.quality.grades import Grade, read_grades
from multidraft.bench.records import Cell, Record
from multidraft.bench.theory.scores import Scores, read_scores
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
        grades: of those answers that were graded, by their records' keys.
        theory: of those texts for which it was computed.
    """

    name: str
    manifest: dict[str, Any]
    records: list[Record]
    failed: list[Record]
    repeated: int
    grades: dict[tuple[Cell, str, int], Grade] = field(default_factory=dict)
    theory: list[Scores] = field(default_factory=list)

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
        if key == "methods":  # records have a method's own L beside its name
            listed = [name.partition("@")[0] for name in listed]
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
    name, theory = path.resolve().name, list(read_scores(path))
    return Run(name, manifest, good, failed, repeated, read_grades(path), theory)
