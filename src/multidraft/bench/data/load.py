"""From a data set's name to its prompts."""

from __future__ import annotations

import difflib
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from multidraft.bench.data.example import Example, Row
from multidraft.bench.data.files import find_files, read_rows
from multidraft.bench.data.hub import rows_from_hub
from multidraft.bench.data.tasks import DATASETS, MGSM_LABELS, DataSet, lm1b, own
from multidraft.errors import InvalidInput

_FILE = "file:"


def parse_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of single data sets: ``mgsm`` stands for all its languages.

    Raises:
        InvalidInput: an unknown name, or one given twice.
    """
    found: list[str] = []
    for name in names:
        if name == "mgsm":
            found += [f"mgsm-{language}" for language in MGSM_LABELS]
        elif _known(name):
            found.append(name)
        else:
            raise InvalidInput(_unknown(name))
    for name in found:
        if found.count(name) > 1:
            raise InvalidInput(f"The data set {name!r} is named twice.")
    return tuple(found)


def load_examples(name: str, data_dir: Path | None) -> list[Example]:
    """All prompts of a data set, in its own order.

    Args:
        name: one of `DATASETS`, or ``file:PATH`` for a JSONL file with ``prompt`` and, where
            wanted, ``id`` and ``reference`` on each line, or for a text file with a sentence on
            each line, to be continued from its middle as lm1b's are.
        data_dir: folder with the published files; None fetches from the hub.

    Raises:
        InvalidInput: an unknown name, a missing file, or a row that is not what it should be.
        DataUnavailable: the hub cannot be reached.
    """
    if not _known(name):
        raise InvalidInput(_unknown(name))
    make: Callable[[str, int, Row], Example | None]
    if name.startswith(_FILE):
        make = lm1b if _is_text(name) else own
        rows = _own_rows(Path(name.removeprefix(_FILE)).expanduser())
    else:
        rows, make = _rows(DATASETS[name], data_dir), DATASETS[name].example
    made = (make(name, number, row) for number, row in enumerate(rows))
    examples = [example for example in made if example is not None]
    if not examples:
        raise InvalidInput(f"The data set {name!r} has no prompts.")
    seen: set[str] = set()
    for example in examples:
        if example.id in seen:
            raise InvalidInput(f"The data set {name!r} has two prompts with the id {example.id!r}.")
        seen.add(example.id)
    return examples


def choose(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """``count`` of them (all, if there are no more) in a random order that the seed fixes.

    A smaller count gives the beginning of a larger one.
    """
    shuffled = list(examples)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:count]


def fingerprint(examples: Sequence[Example]) -> str:
    """SHA-256 of ids and prompts, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(json.dumps([example.id, example.prompt, example.messages]).encode())
    return digest.hexdigest()


def _known(name: str) -> bool:
    return name in DATASETS or (name.startswith(_FILE) and name != _FILE)


def _rows(data: DataSet, data_dir: Path | None) -> Iterator[Row]:
    if data_dir is None:
        if data.hub is None:
            raise InvalidInput(
                f"The hub has no {data.name}: download {data.files[0]} from {data.home} and name "
                "its folder with --data-dir."
            )
        yield from rows_from_hub(data.hub)
        return
    paths = find_files(data_dir, data.files)
    if not paths:
        raise InvalidInput(
            f"There is no {data.name} in {data_dir}: looked for {', '.join(data.files)}, plain or "
            f".gz; download it from {data.home}, or leave --data-dir out."
        )
    for path in paths:
        yield from read_rows(path)


def _own_rows(path: Path) -> Iterator[Row]:
    if not path.name.removesuffix(".gz").endswith((".jsonl", ".txt")):
        raise InvalidInput(
            "A file of prompts is a .jsonl file with a 'prompt' on each line, or a .txt file with "
            f"a sentence on each line, not {path.name}."
        )
    if not path.is_file():
        raise InvalidInput(f"There is no file {path}; check the path after 'file:'.")
    yield from read_rows(path)


def _unknown(name: str) -> str:
    known = [*(n for n in DATASETS if not n.startswith("mgsm-")), "mgsm", "mgsm-LANGUAGE"]
    near = difflib.get_close_matches(name, [*DATASETS, "mgsm"], n=1)
    hint = f"did you mean {near[0]!r}? Choose" if near else "choose"
    return f"Unknown data set {name!r}; {hint} of {', '.join(known)} and file:PATH."


def for_chat(name: str) -> bool:
    """Whether a data set's prompts are meant for chat models, rather than to be continued."""
    return DATASETS[name].chat if name in DATASETS else not _is_text(name)


def _is_text(name: str) -> bool:
    return name.startswith(_FILE) and name.removesuffix(".gz").endswith(".txt")
