"""A pair of tiny random models in ordinary model folders, for audits that need no download.

Every engine loads them in a second, their laws can be worked out in full, and how far the draft is
from the target is a parameter.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from transformers import GenerationConfig

from multidraft.audit.alphabet import ALPHABET, build_tokenizer
from multidraft.audit.testweights import build_models
from multidraft.errors import InvalidInput

_RECORD = "pair.json"
_RECIPE = 1  # counts up whenever the same parameters give other weights


@dataclass(frozen=True)
class Pair:
    """A target and a draft on disk.

    Attributes:
        folder: holds both.
        distance: mean total variation between their next-token laws at temperature 1.
        vocab_size: number of tokens of either.
        seed: of their weights.
    """

    folder: Path
    distance: float
    vocab_size: int
    seed: int

    @property
    def target(self) -> Path:
        return self.folder / "target"

    @property
    def draft(self) -> Path:
        return self.folder / "draft"


def build_pair(folder: Path, distance: float = 0.3, vocab_size: int = 8, seed: int = 0) -> Pair:
    """Build a pair in ``folder``, or find that it is there already.

    Args:
        folder: new, empty, or holding the same pair.
        distance: mean total variation between the two next-token laws, at temperature 1, in
            contexts sampled from the target. Met within 0.02.
        vocab_size: from 8 to 32.
        seed: non-negative; the same seed gives the same weights everywhere.

    Raises:
        InvalidInput: a parameter out of range, or a folder that holds something else or cannot be
            written.
    """
    if not 8 <= vocab_size <= len(ALPHABET):
        raise InvalidInput(f"A test model has from 8 to {len(ALPHABET)} tokens, not {vocab_size}.")
    if seed < 0:
        raise InvalidInput(f"The seed of a test model must not be negative, but is {seed}.")
    folder = Path(folder)
    pair = Pair(folder, distance, vocab_size, seed)
    if _is_new(pair):
        with _explained(folder):
            _build(pair)
    return pair


def load_pair(folder: Path) -> Pair:
    """The pair that `build_pair` left in a folder.

    Raises:
        InvalidInput: the folder holds no such pair.
    """
    try:
        found = json.loads((folder / _RECORD).read_text())
        pair = Pair(folder, found["distance"], found["vocab_size"], found["seed"])
    except (OSError, ValueError, KeyError, TypeError):
        pair = None
    if pair is None or found != _record(pair):
        raise InvalidInput(
            f"{folder} holds no test models of this version; write them with "
            "`multidraft audit models`."
        )
    return pair


def _build(pair: Pair) -> None:
    """All in a folder beside, renamed when complete: an interruption leaves no half pair."""
    target, draft = build_models(pair.distance, pair.vocab_size, pair.seed)
    tokenizer = build_tokenizer(pair.vocab_size)
    no_defaults: Any = GenerationConfig
    defaults = no_defaults()
    pair.folder.parent.mkdir(parents=True, exist_ok=True)
    beside = tempfile.mkdtemp(prefix=f".{pair.folder.name}-", dir=pair.folder.parent)
    try:
        made = Pair(Path(beside) / "pair", pair.distance, pair.vocab_size, pair.seed)
        for model, at in ((target, made.target), (draft, made.draft)):
            model.config.save_pretrained(at)
            defaults.save_pretrained(at)
            tokenizer.save_pretrained(at)
            save_file(model.state_dict(), at / "model.safetensors", {"format": "pt"})
        (made.folder / _RECORD).write_text(json.dumps(_record(pair)) + "\n")
        try:
            made.folder.rename(pair.folder)
        except OSError:
            if _is_new(pair):  # else another process was quicker
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _is_new(pair: Pair) -> bool:
    """Whether the pair is yet to be built; raises InvalidInput where it cannot be."""
    folder = pair.folder
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return True
    try:
        found = json.loads((folder / _RECORD).read_text())
    except (OSError, ValueError):
        found = None
    if found != _record(pair):
        raise InvalidInput(
            f"{folder} holds something else than this pair of test models; choose a new folder."
        )
    return False


def _record(pair: Pair) -> dict[str, object]:
    parameters = asdict(pair)
    del parameters["folder"]
    return {"recipe": _RECIPE, **parameters}


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"The test models cannot be written to {folder} ({error.strerror or error})."
        ) from error
