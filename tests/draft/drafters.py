"""The drafters of trees by name, as the engine's tests take them."""

from __future__ import annotations

from multidraft.draft import HybridTreeDrafter, LookupDrafter, UnionDrafter

NAMES = ("hybrid", "widths", "lookup", "union")


def make_drafter(name: str, draft):
    """A drafter of up to four tokens over a draft model (which lookup has no use for)."""
    if name == "hybrid":
        return HybridTreeDrafter(draft, 4, 9)
    if name == "widths":
        return HybridTreeDrafter(draft, 3, widths=[2, 2])
    if name == "lookup":
        return LookupDrafter(4, 6, min_match=1)
    return UnionDrafter(LookupDrafter(4, 4, min_match=1), HybridTreeDrafter(draft, 3, 6))
