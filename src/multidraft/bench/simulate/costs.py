"""The cost table: what each part of a round costs on some machine. Read from YAML or JSON."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from multidraft.bench.config import read_config
from multidraft.engine.control.curve import Curve
from multidraft.errors import InvalidInput
from multidraft.models.disk import whole_file

_FREE = Curve.constant(0.0)
#: A cost for all verifiers, or one for each, by its name; plain decoding's is "ar".
ByVerifier = Curve | Mapping[str, Curve]


@dataclass(frozen=True)
class CostTable:
    """Costs in seconds, or in any other unit where only ratios are wanted.

    Attributes:
        target: of a call, by positions scored.
        draft: of a call, the draws included, by positions scored; None where there is no draft.
        verify, other: of a round, by positions the target scored.
        prefill_target, prefill_draft: of a prompt, by its tokens.
        source: where the table is from, for messages.
    """

    target: Curve
    draft: Curve | None = None
    verify: ByVerifier = _FREE
    other: ByVerifier = _FREE
    prefill_target: Curve = _FREE
    prefill_draft: Curve = _FREE
    source: str = field(default="the cost table", compare=False)

    def step(self) -> Curve:
        """The draft's curve.

        Raises:
            InvalidInput: the table has none.
        """
        if self.draft is None:
            raise InvalidInput(
                f"{self.source}: 'draft' is missing, but a method has a draft model."
            )
        return self.draft

    def of_verifier(self, part: str, verifier: str) -> Curve:
        """The curve of ``part`` ("verify" or "other") for a verifier, or "ar".

        Raises:
            InvalidInput: the table has others, but not this one.
        """
        costs: ByVerifier = getattr(self, part)
        if isinstance(costs, Curve):
            return costs
        if verifier not in costs:
            raise InvalidInput(
                f"{self.source}: {part} has no cost for {verifier!r}; add it, or give one number "
                "for all."
            )
        return costs[verifier]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `make_costs` takes them."""

        def plain(costs: ByVerifier) -> Any:
            if isinstance(costs, Curve):
                return costs.to_dict()
            return {name: curve.to_dict() for name, curve in costs.items()}

        return {
            "target": self.target.to_dict(),
            **({"draft": self.draft.to_dict()} if self.draft else {}),
            "verify": plain(self.verify),
            "other": plain(self.other),
            "prefill": {
                "target": self.prefill_target.to_dict(),
                "draft": self.prefill_draft.to_dict(),
            },
        }


def read_costs(path: Path) -> CostTable:
    """A table from a YAML file, or a JSON file, which is YAML too.

    Raises:
        InvalidInput: it cannot be read, or is no cost table.
    """
    return make_costs(read_config(path, "cost table", "target: {1: 0.05, 25: 0.06}"), str(path))


def make_costs(values: Mapping[str, Any], source: str) -> CostTable:
    """A table from plain values.

    Args:
        values: by the table's keys; a curve is a number or a mapping from counts to numbers.
        source: where they come from, for messages.

    Raises:
        InvalidInput: a key that is missing or unknown, or a value that is no cost.
    """
    _only(values, ("target", "draft", "verify", "other", "prefill"), source)
    if values.get("target") is None:
        raise InvalidInput(
            f"{source}: 'target' is missing; give a call's cost by positions, such as "
            "'target: {1: 0.05, 25: 0.06}'."
        )
    prefill = values.get("prefill") or {}
    if not isinstance(prefill, Mapping):
        raise InvalidInput(f"{source}: prefill must have the keys target and draft.")
    _only(prefill, ("target", "draft"), f"{source}: prefill")
    target = _curve(values["target"], f"{source}: target")
    if target(1) == 0:
        raise InvalidInput(f"{source}: target: a call of one position must cost something.")
    draft = values.get("draft")
    return CostTable(
        target,
        None if draft is None else _curve(draft, f"{source}: draft"),
        verify=_by_verifier(values.get("verify", 0), f"{source}: verify"),
        other=_by_verifier(values.get("other", 0), f"{source}: other"),
        prefill_target=_curve(prefill.get("target", 0), f"{source}: prefill of target"),
        prefill_draft=_curve(prefill.get("draft", 0), f"{source}: prefill of draft"),
        source=source,
    )


def write_costs(costs: CostTable, path: Path, comment: str) -> None:
    """Write a table as YAML, all of it or nothing.

    Raises:
        InvalidInput: the file cannot be written.
    """
    lines = "".join(f"# {line}\n" for line in comment.splitlines())
    text = lines + yaml.safe_dump(costs.to_dict(), sort_keys=False)
    try:
        with whole_file(path) as new:
            new.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"Cannot write to {path}: {error.strerror}.") from None


def _only(values: Mapping[str, Any], keys: tuple[str, ...], source: str) -> None:
    for key in values:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(keys)}."
            raise InvalidInput(f"{source}: unknown key {key!r}; {hint}")


def _by_verifier(value: Any, where: str) -> ByVerifier:
    named = isinstance(value, Mapping) and any(isinstance(key, str) for key in value)
    if not named or _is_counts(value):
        return _curve(value, where)
    return {str(name): _curve(costs, f"{where} of {name}") for name, costs in value.items()}


def _is_counts(values: Mapping[Any, Any]) -> bool:
    return all(_number(key) is not None for key in values)


def _curve(value: Any, where: str) -> Curve:
    if isinstance(value, Mapping) and value:
        points = {}
        for key, cost in value.items():
            count = _number(key)
            if count is None or count < 1:
                raise InvalidInput(f"{where}: {key!r} is no count; counts are numbers from 1 up.")
            if count in points:
                raise InvalidInput(f"{where}: {key!r} is there twice.")
            points[count] = _cost(cost, where)
        return Curve.of(points)
    return Curve.constant(_cost(value, where))


def _cost(value: Any, where: str) -> float:
    cost = None if isinstance(value, str) else _number(value)
    if cost is None or cost < 0:
        raise InvalidInput(
            f"{where}: {value!r} is no cost; give a number from 0 up, or one for each count."
        )
    return cost


def _number(value: Any) -> float | None:
    """JSON has counts as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
