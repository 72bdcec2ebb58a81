"""Drafts from the target's own layers, some left out: for targets that have no small sibling."""

from __future__ import annotations

from collections.abc import Sequence

from multidraft.draft.hybrid import HybridTreeDrafter
from multidraft.models.transformers_model import TransformersModel


class SelfDrafter(HybridTreeDrafter):
    """A `HybridTreeDrafter` whose model is the target with some of its layers left out.

    It needs no weights of its own, and a cache like the target's. `multidraft.draft.calibrate` says
    which layers to keep. For verifiers of independent drafts:
    ``ModelDrafter(target.with_layers(layers), …)``.

    Args:
        target: the target.
        layers: numbers of the layers to keep, rising.
        draft_length, max_nodes, widths, temperature: as in `HybridTreeDrafter`.

    Raises:
        InvalidInput: layers that the target has not, or as `HybridTreeDrafter`.
        UnsupportedModel: a target that does not run without them.

    Reference: Zhang et al. 2024, "Draft & Verify: Lossless Large Language Model Acceleration via
    Self-Speculative Decoding".
    """

    def __init__(
        self,
        target: TransformersModel,
        layers: Sequence[int],
        draft_length: int = 6,
        max_nodes: int | None = None,
        widths: Sequence[int] | None = None,
        temperature: float | None = None,
    ):
        self.layers = tuple(layers)
        super().__init__(target.with_layers(layers), draft_length, max_nodes, widths, temperature)
