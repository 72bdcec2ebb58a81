"""What a run is to do: read from YAML or from flags, and checked key by key."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from multidraft.bench.data import parse_names
from multidraft.bench.methods import parse_method
from multidraft.errors import InvalidInput
from multidraft.models.layer_choice import is_self
from multidraft.models.pair import check_draft
from multidraft.sampling import SamplingParams

#: Keys of a pair that say what the draft model is made into.
_OF_DRAFT = ("draft_head", "draft_dtype")


@dataclass(frozen=True)
class Pair:
    """Target and draft by name; ``name`` is what records call the two.

    ``draft``, ``draft_head`` and ``draft_dtype`` are what `load_draft` takes.
    """

    name: str
    target: str
    draft: str | None = None
    draft_head: str | None = None
    draft_dtype: str | None = None

    @property
    def models(self) -> list[str]:
        """Those with weights of their own."""
        names = [self.target] if self.draft is None else [self.target, self.draft]
        return [name for name in names if not is_self(name)]

    @property
    def head_list(self) -> Path | None:
        """The file that lists the tokens of the draft's head; None for a list that ships."""
        if self.draft_head is None or self.draft_head.isdecimal():
            return None
        return Path(_split_head(self.draft_head)[0])


@dataclass(frozen=True)
class Config:
    """A run: pairs × data × methods × (num_drafts, draft_length, temperature) × repetitions.

    Attributes:
        pairs: the models.
        data: data sets (see `multidraft.bench.data`).
        methods: see `multidraft.bench.methods`.
        num_drafts, draft_length, temperature: the grid's K, L and T.
        prompts: of each data set; all where it has fewer.
        max_tokens: of each answer.
        repetitions: how often each prompt is decoded in each cell.
        seed: of the choice of prompts and of every request.
        batch: prompts decoded together; of several sizes each is a part of the grid, and peers run
            with 1 alone.
        chat: through the chat template or as raw text; None: chat where the target has a template,
            except for data sets of text to be continued.
        data_dir: folder with published files; None for the hub.
        dtype, device, max_length: as `load_model`.
        vllm_python: Python of the environment that has vLLM; None for this one.
    """

    pairs: tuple[Pair, ...]
    data: tuple[str, ...]
    methods: tuple[str, ...]
    num_drafts: tuple[int, ...] = (3,)
    draft_length: tuple[int, ...] = (4,)
    temperature: tuple[float, ...] = (1.0,)
    prompts: int = 100
    max_tokens: int = 128
    repetitions: int = 1
    seed: int = 0
    batch: tuple[int, ...] = (1,)
    chat: bool | None = None
    data_dir: str | None = None
    dtype: str = "auto"
    device: str | None = None
    max_length: int | None = None
    vllm_python: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        values = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }
        if len(self.batch) == 1:  # as runs were written when there could be but one
            values["batch"] = self.batch[0]
        for pair in values["pairs"]:  # likewise
            for key in _OF_DRAFT:
                if pair[key] is None:
                    del pair[key]
        return values


def read_config(
    path: Path, what: str = "configuration", example: str = "data: [gsm8k]"
) -> dict[str, Any]:
    """The values of a YAML file, not yet checked.

    Args:
        path: of the file.
        what, example: what it should be, for messages.

    Raises:
        InvalidInput: it cannot be read, or is no mapping of keys to values.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidInput(f"Cannot read the {what} {path}: {reason}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise InvalidInput(f"{path}{where}: not YAML ({problem}).") from None
    if not isinstance(values, dict):
        raise InvalidInput(f"{path}: a {what} is keys and values, such as '{example}'.")
    return values


def make_config(values: Mapping[str, Any], source: str) -> Config:
    """A configuration from plain values; a list may be given as its only element.

    Args:
        values: by the names of `Config`'s attributes.
        source: where they come from, for messages.

    Raises:
        InvalidInput: a key that is missing or unknown, or a value that cannot be one.
    """
    for key in values:
        if key not in _CHECKS:
            near = difflib.get_close_matches(str(key), _CHECKS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(_CHECKS)}."
            raise InvalidInput(f"{source}: unknown key {key!r}; {hint}")
    for key in ("pairs", "data", "methods"):
        if values.get(key) in (None, [], ""):
            raise InvalidInput(f"{source}: {key!r} is missing; {_WANTED[key]}.")
    checked = {}
    for key, value in values.items():
        if value is None:
            continue  # as if it were not there
        try:
            checked[key] = _CHECKS[key](value)
        except _WrongError as error:
            raise InvalidInput(f"{source}: {key} must be {error}, not {value!r}.") from None
        except InvalidInput as error:
            raise InvalidInput(f"{source}: {key}: {error}") from None
    config = Config(**checked)
    _check_together(config, source)
    return config


def _check_together(config: Config, source: str) -> None:
    for method in map(parse_method, config.methods):
        for pair in config.pairs:
            if method.needs_draft and pair.draft is None:
                raise InvalidInput(
                    f"{source}: the method {method.name!r} needs a draft model; the pair "
                    f"{pair.name!r} has none."
                )
            if method.peer and method.needs_draft and len(pair.models) < 2:
                raise InvalidInput(
                    f"{source}: {method.name!r} needs a draft model with weights of its own; that "
                    f"of the pair {pair.name!r} is made of the target's."
                )
        if method.peer and 1 not in config.batch:
            raise InvalidInput(
                f"{source}: {method.name!r} decodes one prompt at a time; set batch to 1 or leave "
                "it out."
            )


class _WrongError(Exception):
    """What a value should have been."""


def _list(check: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def checked(value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, (list, tuple)) else [value]
        if not values:
            raise _WrongError("a list with something in it")
        return tuple(dict.fromkeys(check(each) for each in values))

    return checked


def _whole(least: int) -> Callable[[Any], int]:
    def checked(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise _WrongError(f"a whole number of at least {least}")
        return value

    return checked


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _WrongError("text")
    return value


def _path(value: Any) -> str:
    # Whole, so that a run can be resumed from elsewhere.
    return str(Path(_text(value)).expanduser().absolute())


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongError("true or false")
    return value


def _temperature(value: Any) -> float:
    return SamplingParams(temperature=value).temperature


def _method(value: Any) -> str:
    name = _text(value)
    parse_method(name)
    return name


def _pairs(value: Any) -> tuple[Pair, ...]:
    pairs = tuple(_pair(each) for each in (value if isinstance(value, (list, tuple)) else [value]))
    names = [pair.name for pair in pairs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"two pairs have the name {name!r}; give each its own.")
    return pairs


def _pair(value: Any) -> Pair:
    if not isinstance(value, dict) or "target" not in value:
        raise _WrongError(
            "a list of pairs, each with 'target' and, where wanted, 'draft' and 'name'"
        )
    for key in value:
        if key not in ("name", "target", "draft", *_OF_DRAFT):
            raise InvalidInput(
                f"unknown key {key!r} in a pair; it has target, draft, {', '.join(_OF_DRAFT)} and "
                "name."
            )
    target = _text(value["target"])
    draft = None if value.get("draft") is None else _text(value["draft"])
    given = [value.get(key) for key in _OF_DRAFT]
    head, dtype = (None if each is None else _text(str(each)) for each in given)
    for key, each in zip(_OF_DRAFT, given, strict=True):
        if each is not None and draft is None:
            raise InvalidInput(f"a pair has {key} but no draft.")
    if head is not None and not head.isdecimal():
        file, size = _split_head(head)
        head = _path(file) + size
    if draft is not None:
        # Layers as numbers, so that a run goes on with those it began with.
        draft = check_draft(draft, head, dtype)
    short = [each if is_self(each) else Path(each).name for each in (target, draft) if each]
    if head is not None:
        short[-1] += f" (head {Path(head).name})"
    if dtype is not None:
        short[-1] += f" ({dtype})"
    name = " + ".join(short) if value.get("name") is None else _text(value["name"])
    return Pair(name, target, draft, head, dtype)


def _split_head(head: str) -> tuple[str, str]:
    """File and size of ``FILE@N``; "" for no size."""
    file, at, size = head.rpartition("@")
    return (file, at + size) if file and size.isdecimal() else (head, "")


def _data(value: Any) -> tuple[str, ...]:
    return parse_names(_list(_text)(value))


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "pairs": _pairs,
    "data": _data,
    "methods": _list(_method),
    "num_drafts": _list(_whole(1)),
    "draft_length": _list(_whole(1)),
    "temperature": _list(_temperature),
    "prompts": _whole(1),
    "max_tokens": _whole(1),
    "repetitions": _whole(1),
    "seed": _whole(0),
    "batch": _list(_whole(1)),
    "chat": _yes_or_no,
    "data_dir": _path,
    "dtype": _text,
    "device": _text,
    "max_length": _whole(2),
    "vllm_python": _path,
}
assert list(_CHECKS) == [field.name for field in fields(Config)]

_WANTED = {
    "pairs": "name a target and a draft model",
    "data": "name the data sets, such as humaneval",
    "methods": "name the methods to compare, such as ar and spectr-gbv",
}
