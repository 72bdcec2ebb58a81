"""Tree attention: each new node sees its slot's committed prefix, its ancestors, and itself.

The new nodes of all slots of a call lie in one flat row, so the model's other layers see no
padding; attention works slot by slot on the live rows of the cache. It is registered with
transformers under a name without a mask function, so that transformers builds no mask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from multidraft.errors import UnsupportedModel

#: Name under which transformers finds ``tree_attention``.
ATTENTION_NAME = "multidraft_tree"

# Arguments that models hand to every attention function and that change nothing here.
_HARMLESS = frozenset({"position_ids", "use_cache", "is_causal", "output_attentions"})

_Key: TypeAlias = tuple[int | None, int, torch.dtype]  # window, query heads per key head, dtype
_View: TypeAlias = tuple[slice, slice, torch.Tensor | None]  # columns, cache rows, mask


@dataclass(frozen=True)
class Segment:
    """The new nodes of one slot within the flat row of a call.

    Attributes:
        start, stop: their columns in the flat row.
        first_row: the cache row of the slot's position 0; committed tokens follow in order, then
            the open nodes, these new ones last.
        committed: number of committed tokens.
        depths: ``[open]``, depth of every open node; 0 for a child of the prefix.
        ancestry: bool ``[stop - start, open]``, which open nodes each new node sees.
    """

    start: int
    stop: int
    first_row: int
    committed: int
    depths: np.ndarray
    ancestry: np.ndarray

    def view(self, window: int | None) -> tuple[int, np.ndarray | None]:
        """First row a new node can see, counted from ``first_row``, and who sees what from there.

        The second part is bool ``[new nodes, live rows]``, or None when all see everything.
        """
        new = self.stop - self.start
        visible = np.ones((new, self.committed + len(self.depths)), dtype=bool)
        visible[:, self.committed :] = self.ancestry
        first = 0
        if window is not None and self.committed + self.depths.max() >= window:
            positions = self.committed + self.depths
            keys = np.concatenate([np.arange(self.committed), positions])
            queries = positions[-new:]
            visible &= queries[:, None] - keys < window
            first = min(self.committed, max(0, int(queries.min()) - window + 1))
            visible = visible[:, first:]
        return first, None if visible.all() else visible


@dataclass
class Plan:
    """Where the new nodes of one call lie, and what they see. Made once per call, for all layers.

    Attributes:
        rows: int64 ``[nodes]``, the cache row of each column of the flat row.
        segments: one per slot, in the order of the flat row.
        filler: columns after the last segment, which repeat its last node.
    """

    rows: torch.Tensor
    segments: list[Segment]
    filler: int = 0
    _views: dict[_Key, list[_View]] = field(default_factory=dict)
    _turns: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    def views(self, window: int | None, groups: int, dtype: torch.dtype) -> list[_View]:
        """Per segment: its columns, its cache rows, and an additive mask ``[groups * new, rows]``
        of 0 and -inf, or None where nothing is hidden."""
        key = (window, groups, dtype)
        if key not in self._views:
            self._views[key] = [self._view(s, window, groups, dtype) for s in self.segments]
        return self._views[key]

    def rotation(self, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Factors ``[1, 1, nodes, d]`` of a vector and of the same rolled by d/2: in the first half
        the sine is negative, as rotary position encoding has it."""
        key = id(sin)
        if key not in self._turns:
            half = sin.shape[-1] // 2
            signed = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
            self._turns[key] = (cos[:, None], signed[:, None])
        return self._turns[key]

    def windows(self) -> set[int | None]:
        """The sliding windows that the layers asked for during the call (None: full attention)."""
        return {window for window, _, _ in self._views}

    def _view(self, segment: Segment, window: int | None, groups: int, dtype: torch.dtype) -> _View:
        first, visible = segment.view(window)
        live = segment.committed + len(segment.depths)
        rows = slice(segment.first_row + first, segment.first_row + live)
        mask = None
        if visible is not None:
            seen = torch.from_numpy(visible).to(self.rows.device)
            mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
            mask = mask.masked_fill_(~seen, float("-inf")).repeat(groups, 1)
        return slice(segment.start, segment.stop), rows, mask


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    multidraft_plan: Plan | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function in the form transformers calls.

    Args:
        query: ``[1, heads, nodes, d]``, the new nodes of all slots.
        key, value: ``[1, kv_heads, rows, d]``, the whole cache of the layer, new nodes written.
        multidraft_plan: where each slot's rows lie; it travels as a keyword of the model's forward.

    Returns:
        ``[1, nodes, heads, d]``, and None for the weights.

    Raises:
        UnsupportedModel: the model asks for something this function does not honour.
    """
    unknown = [k for k, v in kwargs.items() if v is not None and v is not False]
    unknown = [k for k in unknown if k not in _HARMLESS]
    if unknown or multidraft_plan is None or attention_mask is not None:
        if unknown:
            reason = f"it uses {', '.join(unknown)}"
        elif multidraft_plan is None:
            reason = "it does not hand on the arguments of its model"
        else:
            reason = "it builds masks of its own"
        raise UnsupportedModel(
            f"Tree attention does not support {type(module).__name__}, because {reason}."
        )
    heads = query.shape[1]
    kv_heads = key.shape[1]
    groups = heads // kv_heads
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    outputs = []
    for columns, rows, mask in multidraft_plan.views(sliding_window, groups, query.dtype):
        # The query heads that share a key head become extra rows, so keys are never copied.
        q = query[:, :, columns].reshape(1, kv_heads, -1, query.shape[-1])
        k, v = key[:, :, rows], value[:, :, rows]
        if softcap is None:
            out = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scaling)
        else:
            out = _softcapped(q, k, v, mask, scaling, softcap)
        outputs.append(out.reshape(1, heads, -1, value.shape[-1]))
    if multidraft_plan.filler:
        outputs.append(outputs[-1][:, :, -1:].expand(-1, -1, multidraft_plan.filler, -1))
    out = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
    return out.transpose(1, 2).contiguous(), None  # some models go on with a view


def _softcapped(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float,
    softcap: float,
) -> torch.Tensor:
    # Step by step as the models' own eager form, so that bfloat16 rounds alike.
    scores = q @ k.transpose(-1, -2) * scaling
    scores = torch.tanh(scores / softcap) * softcap
    if mask is not None:
        scores = scores + mask
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype) @ v


AttentionInterface.register(ATTENTION_NAME, tree_attention)
