"""A draft for a target, as users name it."""

from __future__ import annotations

from typing import Any

from multidraft.errors import InvalidInput
from multidraft.models.base import LanguageModel
from multidraft.models.layer_choice import SELF, is_self, parse_layers
from multidraft.models.load import load_model
from multidraft.models.transformers_model import TransformersModel
from multidraft.models.translated import share_vocabulary


def load_draft(
    name: str, target: TransformersModel, head: str | None = None, **options: Any
) -> LanguageModel:
    """Load a draft model that speaks the target's vocabulary.

    Args:
        name: as `load_model` takes it, or ``self:LAYERS``: the target's own layers, as numbers
            (``self:0-9,14``) or as a file that `multidraft calibrate` wrote. A model with another
            tokenizer is translated (see `share_vocabulary`).
        target: the target.
        head: how many of its vocabulary's frequent tokens it computes logits of, or a list file
            (see ``head_tokens`` of `load_model`); None: all.
        options: the others of `load_model`; a draft made of the target's layers has the target's.

    Raises:
        InvalidInput: layers that are not there, or a head for a draft that has the target's.
        ModelUnavailable, UnsupportedModel: as `load_model`.
    """
    if is_self(name):
        if head is not None:
            raise InvalidInput(f"{name} shares the target's head; leave the draft's head out.")
        return target.with_layers(parse_layers(name[len(SELF) :]))
    return share_vocabulary(load_model(name, head_tokens=head, **options), target)
