"""A draft for a target, as users name it."""

from __future__ import annotations

from typing import Any

import torch

from multidraft.errors import InvalidInput
from multidraft.models.base import LanguageModel
from multidraft.models.four_bit import can_be_four_bit, require_four_bit
from multidraft.models.layer_choice import SELF, is_self, parse_layers, settled
from multidraft.models.load import load_model, resolve_device, resolve_dtype
from multidraft.models.transformers_model import TransformersModel
from multidraft.models.translated import share_vocabulary

#: The dtype of drafts with weights of four bits.
INT4 = "int4"


def check_draft(
    name: str, head: str | None = None, dtype: str | None = None, device: str | None = None
) -> str:
    """What can be said of a draft before any model is loaded; see `load_draft`.

    Returns:
        its name, with layers as numbers.

    Raises:
        InvalidInput: a name, a head or a dtype that no draft has, or that this one cannot have.
    """
    if not name.strip():
        raise InvalidInput("The draft's name is empty; `multidraft models` lists names to give.")
    _check_own(name, head, dtype)
    if head is not None and not head.strip():
        raise InvalidInput("The draft's head is empty; give how many tokens, or a list file.")
    if dtype not in (None, "auto", INT4):
        resolve_dtype(dtype, resolve_device(device))
    return settled(name)


def check_draft_here(
    name: str, head: str | None = None, dtype: str | None = None, device: str | None = None
) -> str:
    """The same of a draft that is to be loaded now, on this machine.

    Raises:
        InvalidInput: see `check_draft`; also a dtype that cannot be had here.
    """
    known_as = check_draft(name, head, dtype, device)
    if dtype == INT4:
        require_four_bit(resolve_device(device))
    return known_as


def _check_own(name: str, head: str | None, dtype: str | torch.dtype | None) -> None:
    """Raises InvalidInput for a draft of the target's layers that is to differ from the target."""
    if is_self(name) and head is not None:
        raise InvalidInput(f"{name} shares the target's head; leave the draft's head out.")
    if is_self(name) and dtype not in (None, "auto"):
        raise InvalidInput(f"{name} shares the target's weights; leave the draft's dtype out.")


def load_draft(
    name: str,
    target: TransformersModel,
    head: str | None = None,
    dtype: str | torch.dtype | None = None,
    **options: Any,
) -> LanguageModel:
    """Load a draft model that speaks the target's vocabulary.

    Args:
        name: as `load_model` takes it, or ``self:LAYERS``: the target's own layers, as numbers
            (``self:0-9,14``) or as a file that `multidraft calibrate` wrote. A model with another
            tokenizer is translated (see `share_vocabulary`).
        target: the target.
        head: how many of its vocabulary's frequent tokens it computes logits of, or a list file
            (see ``head_tokens`` of `load_model`); None: all.
        dtype: as `load_model` takes it; or ``int4``, bfloat16 with weights of four bits, for CPUs
            (see ``four_bit`` of `load_model`); or ``auto``, int4 where that is faster, else the
            target's; None: the target's.
        options: the others of `load_model`; its device is the target's, if not given, and a draft
            made of the target's layers has all the target's.

    Raises:
        InvalidInput: layers that are not there, a head or a dtype for a draft that has the
            target's, or ``int4`` where it cannot be had.
        ModelUnavailable, UnsupportedModel: as `load_model`.
    """
    _check_own(name, head, dtype)
    if is_self(name):
        return target.with_layers(parse_layers(name[len(SELF) :]))
    if dtype == "auto":
        fits = target.dtype == torch.bfloat16 and can_be_four_bit(target.device)
        dtype = INT4 if fits else None
    four_bit = dtype == INT4
    if options.get("device") is None:
        options["device"] = target.device
    model = load_model(
        name,
        dtype=torch.bfloat16 if four_bit else target.dtype if dtype is None else dtype,
        head_tokens=head,
        four_bit=four_bit,
        **options,
    )
    return share_vocabulary(model, target)
