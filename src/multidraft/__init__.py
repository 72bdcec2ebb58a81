"""Lossless speculative decoding with several drafts per round."""

import importlib
from typing import TYPE_CHECKING, Any

from multidraft._version import __version__

if TYPE_CHECKING:
    from multidraft.engine import Decoder, Engine, Piece, Result, Stats
    from multidraft.errors import (
        InvalidInput,
        InvalidLogits,
        ModelUnavailable,
        MultidraftError,
        UnsupportedModel,
    )
    from multidraft.models import FunctionModel, LanguageModel, load_draft, load_model
    from multidraft.sampling import SamplingParams

_HOMES = {
    "multidraft.engine": ("Decoder", "Engine", "Piece", "Result", "Stats"),
    "multidraft.errors": (
        "InvalidInput",
        "InvalidLogits",
        "ModelUnavailable",
        "MultidraftError",
        "UnsupportedModel",
    ),
    "multidraft.models": ("FunctionModel", "LanguageModel", "load_draft", "load_model"),
    "multidraft.sampling": ("SamplingParams",),
}


def __getattr__(name: str) -> Any:
    # On first use only: importing torch and transformers takes seconds, `--help` should not.
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'multidraft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Decoder",
    "Engine",
    "FunctionModel",
    "InvalidInput",
    "InvalidLogits",
    "LanguageModel",
    "ModelUnavailable",
    "MultidraftError",
    "Piece",
    "Result",
    "SamplingParams",
    "Stats",
    "UnsupportedModel",
    "__version__",
    "load_draft",
    "load_model",
]
