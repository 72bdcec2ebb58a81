"""Linear layers whose weights are laid out once, at load, for the CPU's matrix kernels.

PyTorch's linear reorders its weight on every call: with few rows that costs more than the
product. The packed layer calls the same oneDNN kernel on a weight reordered beforehand.

oneDNN has no products of bfloat16 for CPUs that have AVX2 and no more. There the packed weight is
the float32 one of the same values, and a single row, which takes as long as its weight takes to be
read, is multiplied by the bfloat16 weight itself (`OneRowLinear`).
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


class PackedLinear(nn.Module):
    """``x @ weight.T + bias`` for a weight ``[out_features, in_features]`` packed for oneDNN."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        # For models that ask for its dtype or shape. It takes no memory, and whatever is computed
        # from it is NaN, which the check at load notices.
        self.weight = weight.new_full((1, 1), float("nan")).expand(weight.shape)
        self._kernel_dtype = _kernel_dtype(weight.dtype)
        # Opaque tensors are no parameters: they cannot be saved, moved or cast.
        self._packed = torch.ops.mkldnn._reorder_linear_weight(
            weight.detach().to(self._kernel_dtype).contiguous(), _ROWS_HINT
        )
        self._bias = None if bias is None else bias.detach().to(self._kernel_dtype, copy=True)
        self._linear = torch.ops.mkldnn._linear_pointwise.default
        self._linear_add = torch.ops.mkldnn._linear_pointwise.binary

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self._linear(
            x.to(self._kernel_dtype), self._packed, self._bias, "none", [], ""
        )
        return out.to(x.dtype)

    def added(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """``self(x) + other``, in one operation."""
        kernel = self._kernel_dtype
        out: torch.Tensor = self._linear_add(
            x.to(kernel), other.to(kernel), self._packed, self._bias, "add"
        )
        return out.to(x.dtype)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class FewRowsLinear(PackedLinear):
    """A packed layer with another product, of the same weight, for calls of a few rows.

    A law does not depend on how many rows a call has by more than rounding.

    Args:
        weight, bias: as `PackedLinear`.
        most_rows: of the other product.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, most_rows: int) -> None:
        super().__init__(weight, bias)
        self._most_rows = most_rows
        self._few_bias = None if bias is None else bias.detach().clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self._of_few(x)
        if out is None:
            return super().forward(x)
        return out if self._few_bias is None else out.add_(self._few_bias)

    def added(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        out = self._of_few(x)
        if out is None:
            return super().added(x, other)
        return (out if self._few_bias is None else out.add_(self._few_bias)).add_(other)

    def _of_few(self, x: torch.Tensor) -> torch.Tensor | None:
        """``x @ weight.T`` if ``x`` has few rows."""
        if x.numel() > self._most_rows * self.in_features:
            return None
        out = self._product(x.reshape(-1, self.in_features))
        return out.view(*x.shape[:-1], self.out_features)

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        """The same for ``x`` of two dimensions."""
        raise NotImplementedError


class OneRowLinear(FewRowsLinear):
    """For CPUs without products of bfloat16: one row by the bfloat16 weight, more by float32.

    PyTorch's own bfloat16 product takes as long for each row as float32 takes for all of a few; but
    half of float32 for a single one. The weight takes 6 bytes a number.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__(weight, bias, most_rows=1)
        # A parameter that an embedding shares stays one.
        shared = isinstance(weight, nn.Parameter)
        self._narrow = weight if shared else nn.Parameter(weight.contiguous(), requires_grad=False)

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self._narrow)


def fewest_rows(model: nn.Module) -> int:
    """How many rows a call of a model with packed layers had best have at least.

    With AVX-512, 1 to 3 rows take 10 to 30 % longer than 4, in both dtypes and at every size
    measured (192 x 576 to 151936 x 1536). With AVX2 alone one row takes a sixth less than four.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, PackedLinear)]
    other = any(isinstance(layer, FewRowsLinear) for layer in layers)
    return 1 if not layers or other or torch.backends.cpu.get_cpu_capability() == "AVX2" else 4


#: What makes a packed layer of a weight and a bias.
Pack = Callable[[torch.Tensor, torch.Tensor | None], PackedLinear]


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether weights of this dtype and device have a packed form that is faster."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype == torch.bfloat16:
        return has_bfloat16_products() or widens_bfloat16()
    return dtype == torch.float32


def _kernel_dtype(dtype: torch.dtype) -> torch.dtype:
    """What products of a dtype are computed in."""
    widened = dtype == torch.bfloat16 and not has_bfloat16_products()
    return torch.float32 if widened else dtype


def has_bfloat16_products() -> bool:
    """Whether oneDNN has any for this CPU, be they emulated."""
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(available and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def widens_bfloat16() -> bool:
    """Whether it has none, and those of float32 were measured to be faster than PyTorch's own."""
    return torch.backends.cpu.get_cpu_capability() == "AVX2" and not has_bfloat16_products()


def linear_weight(layer: nn.Module) -> torch.Tensor | None:
    """``[out_features, in_features]``, a view, of a plain linear layer; None for other layers."""
    # Exact types: a subclass may compute something else.
    if type(layer) is nn.Linear:
        return layer.weight
    return layer.weight.t() if type(layer) is Conv1D else None


def pack_best(weight: torch.Tensor, bias: torch.Tensor | None) -> PackedLinear:
    """The packed layer that is fastest here, of a weight that `can_pack`."""
    own = _kernel_dtype(weight.dtype) == weight.dtype
    return (PackedLinear if own else OneRowLinear)(weight, bias)


def pack_linears(model: nn.Module, pack: Pack = pack_best) -> int:
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
