"""Language models behind one seam: slots, tree scoring, commit, roll-back."""

from multidraft.models.base import PREFIX, Extension, LanguageModel, NoFreeSlot
from multidraft.models.function import FunctionModel

__all__ = ["PREFIX", "Extension", "FunctionModel", "LanguageModel", "NoFreeSlot"]
