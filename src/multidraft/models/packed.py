"""Linear layers whose weights are laid out once, at load, for the CPU's matrix kernels.

PyTorch's linear reorders its weight on every call: with few rows that costs more than the
product. The packed layer calls the same oneDNN kernel on a weight reordered beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

# Rows the layout is chosen for. Measured on AVX-512 in bfloat16, any hint from 1 to 64 gives the
# same times; in float32 a hint of 1 makes several rows slower and a larger one costs nothing.
_ROWS_HINT = 16

#: Fewest rows worth computing: 1 to 3 rows take 10 to 30 % longer than 4, in both dtypes and at
#: every size measured (192 x 576 to 151936 x 1536).
FAST_ROWS = 4


class PackedLinear(nn.Module):
    """``x @ weight.T + bias`` for a weight ``[out_features, in_features]`` packed for oneDNN."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        # For models that ask for its dtype or shape. It takes no memory, and whatever is computed
        # from it is NaN, which the check at load notices.
        self.weight = weight.new_full((1, 1), float("nan")).expand(weight.shape)
        # Opaque tensors are no parameters: they cannot be saved, moved or cast.
        self._packed = torch.ops.mkldnn._reorder_linear_weight(
            weight.detach().contiguous(), _ROWS_HINT
        )
        self._bias = None if bias is None else bias.detach().clone()
        self._linear = torch.ops.mkldnn._linear_pointwise.default
        self._linear_add = torch.ops.mkldnn._linear_pointwise.binary

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self._linear(x, self._packed, self._bias, "none", [], "")
        return out

    def added(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """``self(x) + other``, in one operation."""
        out: torch.Tensor = self._linear_add(x, other, self._packed, self._bias, "add")
        return out

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


#: What makes a packed layer of a weight and a bias.
Pack = Callable[[torch.Tensor, torch.Tensor | None], PackedLinear]


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether weights of this dtype and device have a packed form that is faster."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def linear_weight(layer: nn.Module) -> torch.Tensor | None:
    """``[out_features, in_features]``, a view, of a plain linear layer; None for other layers."""
    # Exact types: a subclass may compute something else.
    if type(layer) is nn.Linear:
        return layer.weight
    return layer.weight.t() if type(layer) is Conv1D else None


def pack_linears(model: nn.Module, pack: Pack = PackedLinear) -> int:
    """Replace every plain linear layer of ``model`` by a packed one, in place, where it can be.

    Each original weight is freed as it is replaced; one that an embedding shares stays there.
    Returns how many were replaced.
    """
    packed = 0
    for parent in model.modules():
        for name, child in parent.named_children():
            weight = linear_weight(child)
            if weight is not None and can_pack(weight.dtype, weight.device):
                setattr(parent, name, pack(weight, cast(nn.Linear, child).bias))
                packed += 1
    return packed
