"""Drafters: who proposes the tokens a target verifies."""

from multidraft.draft.base import Drafter, DraftRequest
from multidraft.draft.hybrid import HybridTreeDrafter
from multidraft.draft.lookup import LookupDrafter
from multidraft.draft.model import ModelDrafter
from multidraft.draft.self_draft import SelfDrafter
from multidraft.draft.union import UnionDrafter

__all__ = [
    "DraftRequest",
    "Drafter",
    "HybridTreeDrafter",
    "LookupDrafter",
    "ModelDrafter",
    "SelfDrafter",
    "UnionDrafter",
]
