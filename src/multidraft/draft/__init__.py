"""Drafters: who proposes the tokens a target verifies."""

from multidraft.draft.base import Drafter, DraftRequest
from multidraft.draft.model import ModelDrafter

__all__ = ["DraftRequest", "Drafter", "ModelDrafter"]
