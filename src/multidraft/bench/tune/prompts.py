"""The prompts to tune on: a file of one's own, or published data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from multidraft.bench.data import Example, for_chat, load_examples, parse_names
from multidraft.bench.data.example import Row
from multidraft.bench.data.files import read_rows
from multidraft.bench.data.tasks import own
from multidraft.engine import Decoder
from multidraft.errors import InvalidInput
from multidraft.models import LanguageModel


def from_file(path: Path) -> list[Example]:
    """Prompts of a ``.jsonl`` file with a "prompt" on each line, or of a ``.txt`` file with one on
    each line.

    Raises:
        InvalidInput: no such file, another kind of file, or one without prompts.
    """
    kind = Path(path.name.removesuffix(".gz")).suffix
    if kind not in (".jsonl", ".txt"):
        raise InvalidInput(
            "A file of prompts is a .jsonl file with a 'prompt' on each line, or a .txt file with "
            f"a prompt on each line, not {path.name}."
        )
    if not path.is_file():
        raise InvalidInput(f"There is no file {path}; check --prompts.")
    rows = list(read_rows(path))
    if not rows:
        raise InvalidInput(f"{path} has no prompts; write one on each line.")
    if kind == ".txt":
        rows = [Row({"prompt": row.text("text")}, row.where) for row in rows]
    examples = (own(path.name, number, row) for number, row in enumerate(rows))
    return [replace(example, id=str(number)) for number, example in enumerate(examples)]


def from_data(names: Sequence[str], data_dir: Path | None) -> list[Example]:
    """All prompts of published data sets.

    Raises:
        InvalidInput, DataUnavailable: as `load_examples`.
    """
    return [e for name in parse_names(names) for e in load_examples(name, data_dir)]


def chat_by_default(names: Sequence[str], target: LanguageModel) -> bool:
    """Whether prompts go through the target's chat template where nothing is said of it.

    Args:
        names: the data sets; none for a file of one's own.
    """
    template = target.tokenizer is not None and target.tokenizer.chat_template
    return bool(template) and all(for_chat(name) for name in parse_names(names))


def encode(examples: Sequence[Example], chat: bool, target: LanguageModel) -> list[list[int]]:
    """Token ids of each prompt.

    Raises:
        InvalidInput: no tokenizer, or no chat template where one is wanted.
    """
    decoder = Decoder(target)
    return [decoder.encode(e.messages if chat else e.prompt) for e in examples]
