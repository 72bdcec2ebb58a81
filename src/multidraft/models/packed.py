"""Linear layers whose weights are laid out once, at load, for the CPU's matrix kernels.

PyTorch's linear reorders its weight on every call: with few rows that costs more than the
product. A packed layer calls a kernel on a weight reordered beforehand: oneDNN's, or, where that
has no products of bfloat16, FBGEMM's, with weights of float16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

# Rows the layout is chosen for. Measured on AVX-512 in bfloat16, any hint from 1 to 64 gives the
# same times; in float32 a hint of 1 makes several rows slower and a larger one costs nothing.
_ROWS_HINT = 16

# At once: each holds a layer's weights as float32.
_MOST_PACKERS = 4


class PackedLinear(nn.Module):
    """``x @ weight.T + bias`` for a weight ``[out_features, in_features]`` that a subclass packs.

    Packed weights and biases are no parameters: they cannot be saved, moved or cast.
    """

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        # For models that ask for its dtype or shape. It takes no memory, and whatever is computed
        # from it is NaN, which the check at load notices.
        self.weight = weight.new_full((1, 1), float("nan")).expand(weight.shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[..., rows, in_features]`` in, ``[..., rows, out_features]`` out, in x's dtype."""
        raise NotImplementedError

    def added(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """``self(x) + other``, rounded once where the kernel can."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class OneDnnLinear(PackedLinear):
    """Packed for oneDNN, in the weight's own dtype."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__(weight)
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
        out: torch.Tensor = self._linear_add(x, other, self._packed, self._bias, "add")
        return out


class HalfLinear(PackedLinear):
    """A bfloat16 weight held in float16, times a power of two, for FBGEMM's kernel.

    The kernel widens a weight to float32 as it reads it and multiplies in float32. With the largest
    weight brought to the top of float16's range, every weight above 2^-30 of it is held exactly and
    any other to within 2^-40 of it, far below what float32 rounds of the layer's larger outputs.

    Args:
        weight: bfloat16 ``[out_features, in_features]``.
        bias: bfloat16 ``[out_features]``, or None.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__(weight)
        wide = weight.detach().to(torch.float32, copy=True)
        largest = max(abs(float(end)) for end in wide.aminmax())
        # The largest is in [2^(e-1), 2^e), and float16 ends just below 2^16. FBGEMM makes numbers
        # of what is none: the outputs are to stay NaN.
        scale = 2.0 ** (math.frexp(largest)[1] - 16) if math.isfinite(largest) else math.nan
        self._scale = wide.new_tensor([scale])
        self._packed = torch.ops.quantized.linear_prepack_fp16(
            wide.div_(self._scale), None if bias is None else bias.detach().float()
        )
        self._linear = torch.ops.quantized.linear_dynamic_fp16.default

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._wide(x).to(x.dtype)

    def added(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return self._wide(x).add_(other).to(x.dtype)

    def _wide(self, x: torch.Tensor) -> torch.Tensor:
        # A product with a float32 vector of one is float32, and exact: the scale moves exponents.
        out: torch.Tensor = self._linear(x * self._scale, self._packed)
        return out


def fewest_rows(model: nn.Module) -> int:
    """How many rows a call of a model with packed layers had best have at least.

    With AVX-512, 1 to 3 rows take 10 to 30 % longer than 4 in oneDNN, in both dtypes and at every
    size measured (192 x 576 to 151936 x 1536). With AVX2 one row takes a sixth less than four.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, PackedLinear)]
    one_dnn = all(isinstance(layer, OneDnnLinear) for layer in layers)
    avx2 = torch.backends.cpu.get_cpu_capability() == "AVX2"
    return 4 if layers and one_dnn and not avx2 else 1


#: What makes a packed layer of a weight and a bias.
Pack = Callable[[torch.Tensor, torch.Tensor | None], PackedLinear]


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether weights of this dtype and device have a packed form that is faster."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype == torch.bfloat16:
        return has_bfloat16_products() or has_half_products()
    return dtype == torch.float32


def has_bfloat16_products() -> bool:
    """Whether oneDNN has any for this CPU, be they emulated."""
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return bool(available and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def has_half_products() -> bool:
    """Whether FBGEMM's of float16 weights are what bfloat16 ones need: with AVX2 alone, where
    PyTorch is built with it and nothing has asked for another engine of quantised layers."""
    engines = torch.backends.quantized
    return (
        torch.backends.cpu.get_cpu_capability() == "AVX2"
        and not has_bfloat16_products()
        and "fbgemm" in engines.supported_engines
        and engines.engine in ("x86", "fbgemm")
    )


def linear_weight(layer: nn.Module) -> torch.Tensor | None:
    """``[out_features, in_features]``, a view, of a plain linear layer; None for other layers."""
    # Exact types: a subclass may compute something else.
    if type(layer) is nn.Linear:
        return layer.weight
    return layer.weight.t() if type(layer) is Conv1D else None


def pack_best(weight: torch.Tensor, bias: torch.Tensor | None) -> PackedLinear:
    """The packed layer that is fastest here, of a weight that `can_pack`."""
    half = weight.dtype == torch.bfloat16 and not has_bfloat16_products()
    return (HalfLinear if half else OneDnnLinear)(weight, bias)


def pack_linears(model: nn.Module, pack: Pack = pack_best) -> int:
    """Replace every plain linear layer of ``model`` by a packed one, in place, where it can be.

    Each original weight is freed as it is replaced; one that an embedding shares stays there.
    Returns how many were replaced.
    """

    def fits(layer: nn.Module) -> bool:
        weight = linear_weight(layer)
        return weight is not None and can_pack(weight.dtype, weight.device)

    def packed(layer: nn.Module) -> nn.Module:
        return pack(cast(torch.Tensor, linear_weight(layer)), cast(nn.Linear, layer).bias)

    return replace_modules(model, fits, packed)


def replace_modules(
    model: nn.Module, fits: Callable[[nn.Module], bool], make: Callable[[nn.Module], nn.Module]
) -> int:
    """Put ``make(module)`` in the place of every module below ``model`` that ``fits``.

    Returns how many were replaced.
    """
    # Their parents alone are held, so that a module's weights are freed when it is replaced.
    places = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if fits(child)
    ]

    def replace(place: tuple[nn.Module, str]) -> None:
        setattr(*place, make(getattr(*place)))

    if has_half_products():  # FBGEMM packs on one core
        with ThreadPoolExecutor(min(torch.get_num_threads(), _MOST_PACKERS)) as pool:
            list(pool.map(replace, places))
    else:
        for place in places:
            replace(place)
    return len(places)
