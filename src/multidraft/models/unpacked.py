"""Faster products of layers that are not packed yet, for the reference of the check at load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from multidraft.models.packed import has_half_products


class _WideProducts(TorchFunctionMode):
    """Products of bfloat16 on the CPU are computed in float32 and rounded once."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.linear:
            return _linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    if input.dtype != torch.bfloat16 or input.device.type != "cpu":
        return nn.functional.linear(input, weight, bias)
    wide_bias = None if bias is None else bias.float()
    return nn.functional.linear(input.float(), weight.float(), wide_bias).to(input.dtype)


@contextmanager
def fast_unpacked() -> Iterator[None]:
    """`torch.nn.functional.linear` computes as packed layers will where these are `HalfLinear`:
    PyTorch's own product takes as long for each row as for the first there."""
    if has_half_products():
        with _WideProducts():
            yield
    else:
        yield
