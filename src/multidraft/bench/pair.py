"""The models of a run's pair."""

from __future__ import annotations

from typing import Any

from multidraft.bench.config import Config, Pair
from multidraft.models import LanguageModel, load_model
from multidraft.models.pair import check_draft_here, load_draft
from multidraft.models.transformers_model import TransformersModel


def load_pair(
    config: Config, pair: Pair, slots: int
) -> tuple[TransformersModel, LanguageModel | None]:
    """Target and draft as the run has them, with so many slots each; None where nothing drafts.

    Raises:
        InvalidInput, ModelUnavailable, UnsupportedModel: as `load_model` and `load_draft`.
    """
    options: dict[str, Any] = {
        "device": config.device,
        "max_length": config.max_length,
        "slots": slots,
    }
    if pair.draft is not None:
        check_draft_here(pair.draft, pair.draft_head, pair.draft_dtype, config.device)
    target = load_model(pair.target, config.dtype, **options)
    if pair.draft is None:
        return target, None
    return target, load_draft(pair.draft, target, pair.draft_head, pair.draft_dtype, **options)
