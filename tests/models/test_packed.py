"""Packed linear layers give what the layers they replace give."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from multidraft.models.packed import PackedLinear, can_pack, pack_linears
from tests.models.tiny import CONFIGS, build, plain_logits

DTYPES = [d for d in (torch.float32, torch.bfloat16) if can_pack(d, torch.device("cpu"))]
pytestmark = pytest.mark.skipif(not DTYPES, reason="no packed form on this machine")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 33])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_layer_computes_the_same(dtype, rows, bias):
    torch.manual_seed(rows)
    linear = nn.Linear(64, 96, bias=bias, dtype=dtype)
    conv = Conv1D(96, 64).to(dtype)
    for layer in (linear, conv):
        holder = nn.Sequential(copy.deepcopy(layer))
        pack_linears(holder)
        assert isinstance(holder[0], PackedLinear)
        x = torch.randn(1, rows, 64, dtype=dtype)
        with torch.inference_mode():
            tolerance = 1e-5 if dtype == torch.float32 else 2e-2
            torch.testing.assert_close(holder(x), layer(x), atol=tolerance, rtol=tolerance)


def test_a_tied_embedding_stays_usable():
    plain, packed = build(CONFIGS["llama"]), build(CONFIGS["llama"])
    assert packed.lm_head.weight is packed.model.embed_tokens.weight
    pack_linears(packed)
    assert isinstance(packed.lm_head, PackedLinear)
    torch.testing.assert_close(plain_logits(packed, [3, 1, 4]), plain_logits(plain, [3, 1, 4]))


def test_subclasses_and_other_dtypes_are_left_alone():
    class Scaled(nn.Linear):
        pass

    holder = nn.Sequential(Scaled(4, 4), nn.Linear(4, 4, dtype=torch.float64))
    pack_linears(holder)
    assert not any(isinstance(module, PackedLinear) for module in holder)
