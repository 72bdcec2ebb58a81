"""Drafters by name, made from a draft model, K and L: what benchmarks and audits name them by.

A drafter is added by one entry in `DRAFTERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from multidraft.draft.base import Drafter
from multidraft.draft.hybrid import HybridTreeDrafter
from multidraft.draft.lookup import LookupDrafter
from multidraft.draft.model import ModelDrafter
from multidraft.draft.union import UnionDrafter
from multidraft.models.base import LanguageModel


@dataclass(frozen=True)
class Proposer:
    """A kind of drafter.

    Attributes:
        make: one from the draft model, K and L.
        drafts: the shape of its trees, as in `Drafter`.
        needs_draft: whether it asks a draft model.
        uses_num_drafts: whether K means anything to it.
        widest: one from the draft model, as large as can pay; None where that depends on the
            verifier (see `widest`).
    """

    make: Callable[[LanguageModel | None, int, int], Drafter]
    drafts: Literal["iid", "any"]
    needs_draft: bool = True
    uses_num_drafts: bool = True
    widest: Callable[[LanguageModel | None], Drafter] | None = None


def _from_model(draft: LanguageModel | None, num_drafts: int, draft_length: int) -> Drafter:
    assert draft is not None
    return ModelDrafter(draft, num_drafts, draft_length)


def _hybrid(draft: LanguageModel | None, num_drafts: int, draft_length: int) -> Drafter:
    """As many nodes as K drafts of length L have, spent where the draft thinks best."""
    assert draft is not None
    return HybridTreeDrafter(draft, draft_length, max_nodes=num_drafts * draft_length)


def _lookup(draft: LanguageModel | None, num_drafts: int, draft_length: int) -> Drafter:
    return LookupDrafter(draft_length, max_nodes=num_drafts * draft_length)


def _union(draft: LanguageModel | None, num_drafts: int, draft_length: int) -> Drafter:
    """The same number of nodes, a third of them lookup's."""
    assert draft is not None
    nodes = num_drafts * draft_length
    given = max(1, nodes // 3)
    return UnionDrafter(
        LookupDrafter(draft_length, max_nodes=given),
        HybridTreeDrafter(draft, draft_length, max_nodes=max(1, nodes - given)),
    )


def _widest_hybrid(draft: LanguageModel | None) -> HybridTreeDrafter:
    assert draft is not None
    return HybridTreeDrafter(draft, draft_length=12, max_nodes=24)


def _widest_lookup(draft: LanguageModel | None) -> LookupDrafter:
    return LookupDrafter(draft_length=16, max_nodes=24)


def _widest_union(draft: LanguageModel | None) -> UnionDrafter:
    return UnionDrafter(_widest_lookup(None), _widest_hybrid(draft))


#: K independent drafts, where no other drafter is named.
MODEL = Proposer(_from_model, "iid")
#: The others; each gets at most K * L nodes, union at least two.
DRAFTERS = {
    "hybrid": Proposer(_hybrid, "any", widest=_widest_hybrid),
    "lookup": Proposer(_lookup, "any", needs_draft=False, widest=_widest_lookup),
    "union": Proposer(_union, "any", widest=_widest_union),
}


def widest(
    draft: LanguageModel | None,
    shape: Literal["one", "iid", "any"],
    proposer: Proposer = MODEL,
    temperature: float | None = None,
) -> Drafter:
    """For a controller to choose from: as much as can pay with a good draft.

    Args:
        draft: the draft model; None for a drafter that needs none.
        shape: what the verifier takes, as `Verifier.drafts`.
        proposer: the kind of drafter. `MODEL` stands for the best kind that the verifier takes.
        temperature: of independent drafts, which it asks for; None: the request's.
    """
    if proposer is MODEL and shape == "any" and temperature is None:
        proposer = DRAFTERS["union"]
    if proposer.widest is not None:
        return proposer.widest(draft)
    assert draft is not None
    return ModelDrafter(draft, 1 if shape == "one" else 3, 12, temperature)
