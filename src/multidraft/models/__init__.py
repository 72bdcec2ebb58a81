"""Language models behind one seam: slots, tree scoring, commit, roll-back."""

from multidraft.models.base import PREFIX, Extension, LanguageModel, NoFreeSlot
from multidraft.models.function import FunctionModel
from multidraft.models.load import load_model
from multidraft.models.transformers_model import TransformersModel

__all__ = [
    "PREFIX",
    "Extension",
    "FunctionModel",
    "LanguageModel",
    "NoFreeSlot",
    "TransformersModel",
    "load_model",
]
