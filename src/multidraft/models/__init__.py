"""Language models behind one seam: slots, tree scoring, commit, roll-back."""

from multidraft.models.base import PREFIX, Extension, LanguageModel, NoFreeSlot
from multidraft.models.function import FunctionModel
from multidraft.models.load import load_model
from multidraft.models.pair import load_draft
from multidraft.models.transformers_model import TransformersModel
from multidraft.models.translated import TranslatedModel, share_vocabulary

__all__ = [
    "PREFIX",
    "Extension",
    "FunctionModel",
    "LanguageModel",
    "NoFreeSlot",
    "TransformersModel",
    "TranslatedModel",
    "load_draft",
    "load_model",
    "share_vocabulary",
]
