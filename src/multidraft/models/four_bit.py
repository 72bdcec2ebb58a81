"""Linear layers with weights of four bits, for models that draft on a CPU.

With a few rows a product takes as long as its weights take to be read, and four bits are read in a
third of the time that bfloat16 takes. A draft so rounded has another law than the model it was made
of; as it is the law that its tokens are drawn from, verification stays exact.

Weights are rounded to the nearest of 16 values that lie evenly between the least and the largest of
a group: 32 neighbours in a row.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel

from multidraft.errors import InvalidInput
from multidraft.models.packed import (
    PackedLinear,
    can_pack,
    has_half_products,
    linear_weight,
    pack_best,
)

GROUP = 32
#: Rows up to which four bits are faster: they have to be unpacked for every four. Measured against
#: products of bfloat16 with AVX-512, and of float16 weights with AVX2.
MOST_ROWS = 4
_OUT_BLOCK = 16  # the kernel's, in outputs
_CHUNK = 256  # rows of a weight rounded at once: few enough for the cache


class FourBitLinear(PackedLinear):
    """``x @ weight.T + bias`` with the weight in four bits where ``x`` has few rows.

    A law does not depend on how many rows a call has by more than rounding.

    Args:
        weight: bfloat16 ``[out_features, in_features]``, already `rounded`.
        bias: bfloat16 ``[out_features]``, or None.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__(weight)
        levels, steps, centres = zip(*map(_quantised, torch.split(weight, _CHUNK)), strict=True)
        self._levels = torch.ops.aten._convert_weight_to_int4pack_for_cpu(torch.cat(levels), 2)
        scales = torch.stack([torch.cat(steps), torch.cat(centres)], dim=-1)
        self._scales = scales.transpose(0, 1).contiguous()  # [groups, out_features, 2]
        self._bias = None if bias is None else bias.detach().clone()
        self._many = pack_best(weight, bias)
        self._kernel = torch.ops.aten._weight_int4pack_mm_for_cpu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        few = self._of_few(x)
        return self._many(x) if few is None else few

    def added(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        few = self._of_few(x)
        return self._many.added(x, other) if few is None else few.add_(other)

    def _of_few(self, x: torch.Tensor) -> torch.Tensor | None:
        """The layer's output if ``x`` has few rows."""
        if x.numel() > MOST_ROWS * self.in_features:
            return None
        rows = x.reshape(-1, self.in_features)
        out: torch.Tensor = self._kernel(rows, self._levels, GROUP, self._scales)
        if self._bias is not None:
            out.add_(self._bias)
        return out.view(*x.shape[:-1], self.out_features)


def pack_four_bit(weight: torch.Tensor, bias: torch.Tensor | None) -> PackedLinear:
    """A `FourBitLinear` where the weight's shape allows it, else the usual packed layer."""
    return (FourBitLinear if _fits(weight) else pack_best)(weight, bias)


def can_be_four_bit(device: torch.device) -> bool:
    """Whether four bits are faster there: on CPUs with AVX-512 and its bfloat16 instructions, or
    with AVX2 and no more.

    PyTorch has the product for other CPUs too, where it was not measured.
    """
    if not can_pack(torch.bfloat16, device):
        return False
    capability = torch.backends.cpu.get_cpu_capability()
    return has_half_products() or (capability == "AVX512" and torch.cpu._is_avx512_bf16_supported())


def require_four_bit(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> None:
    """Raises InvalidInput where weights of four bits cannot be had."""
    if dtype != torch.bfloat16 or not can_be_four_bit(device):
        raise InvalidInput(
            "Weights of four bits need a CPU with AVX2 alone, or with AVX-512 and its bfloat16 "
            "instructions, and a model in bfloat16; choose another dtype for the draft."
        )


@torch.no_grad()
def round_weights(model: PreTrainedModel) -> None:
    """Round the weight of every linear layer that can have four bits, in place.

    An embedding that shares the output layer's weight keeps its own, unrounded.
    """
    tied = model.get_input_embeddings().weight
    for layer in model.modules():
        weight = linear_weight(layer)
        if weight is None or not _fits(weight):
            continue
        if layer.weight is tied:
            layer.weight = nn.Parameter(rounded(weight), requires_grad=False)
        else:
            weight.copy_(rounded(weight))


def rounded(weight: torch.Tensor) -> torch.Tensor:
    """A weight ``[out_features, in_features]`` with 16 values in each group."""
    return torch.cat([_values(*_quantised(part)) for part in torch.split(weight, _CHUNK)])


def _fits(weight: torch.Tensor) -> bool:
    out_features, in_features = weight.shape
    return out_features % _OUT_BLOCK == 0 and in_features % GROUP == 0


def _quantised(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Levels 0 ... 15 as int32 ``[n, in_features]``, and in the weight's dtype, ``[n, groups]``
    each, steps between levels and the values of level 8."""
    groups = weight.detach().float().view(len(weight), -1, GROUP)
    least, largest = groups.aminmax(dim=-1, keepdim=True)
    # A group of equal weights has no steps; any that is not 0 will do.
    step = ((largest - least) / 15).clamp_min(1e-8).to(weight.dtype)
    centre = (least + 8 * step.float()).to(weight.dtype)
    levels = ((groups - centre.float()) / step.float() + 8).round_().clamp_(0, 15)
    return levels.to(torch.int32).flatten(1), step.squeeze(-1), centre.squeeze(-1)


def _values(levels: torch.Tensor, step: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    groups = levels.view(len(levels), -1, GROUP).float() - 8
    values = groups * step[..., None].float() + centre[..., None].float()
    return values.flatten(1).to(step.dtype)
