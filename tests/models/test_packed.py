"""Packed linear layers give what the layers they replace give."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from multidraft import UnsupportedModel
from multidraft.models import PREFIX, Extension, TransformersModel
from multidraft.models.load import resolve_dtype
from multidraft.models.packed import OneRowLinear, PackedLinear, can_pack, pack_linears
from tests.models.tiny import CONFIGS, build, plain_logits

CPU = torch.device("cpu")
DTYPES = [d for d in (torch.float32, torch.bfloat16) if can_pack(d, CPU)]
pytestmark = pytest.mark.skipif(not DTYPES, reason="no packed form on this machine")


@pytest.fixture
def avx2(monkeypatch):
    """A CPU with AVX2 and no more, as far as this code can tell."""
    if torch.float32 not in DTYPES:
        pytest.skip("no packed form of float32 on this machine")
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr("torch.cpu._is_avx512_supported", lambda: False)
    for module in ("packed", "four_bit"):
        name = f"multidraft.models.{module}.has_bfloat16_products"
        monkeypatch.setattr(name, lambda: False)


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


@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("bias", [True, False])
def test_without_bfloat16_products_the_values_are_the_same(avx2, rows, bias):
    torch.manual_seed(rows)
    linear = nn.Linear(64, 96, bias=bias, dtype=torch.bfloat16).requires_grad_(False)
    layer = OneRowLinear(linear.weight, linear.bias)
    x, other = torch.randn(1, rows, 64), torch.randn(1, rows, 96)
    x, other = x.bfloat16(), other.bfloat16()
    exact = nn.functional.linear(x.double(), linear.weight.double())
    exact += linear.bias.double() if bias else 0.0
    for found, expected in ((layer(x), exact), (layer.added(x, other), exact + other.double())):
        assert found.dtype == torch.bfloat16 and found.shape == (1, rows, 96)
        # A rounding of the result, and of the sum before the bias or the other is added.
        torch.testing.assert_close(found.double(), expected, rtol=2**-7, atol=2**-7)


def test_without_bfloat16_products_one_row_reads_the_weight_itself(avx2):
    """And a head that shares the embedding's weight does not copy it."""
    model = TransformersModel(build(CONFIGS["llama"]).to(torch.bfloat16), slots=1)
    layers = [m for m in model._model.modules() if isinstance(m, PackedLinear)]
    assert layers and all(type(layer) is OneRowLinear for layer in layers)
    head, embedding = model._model.lm_head, model._model.get_input_embeddings()
    assert head._narrow is embedding.weight
    seen = []
    for layer in layers:
        layer._product = lambda x, product=layer._product: seen.append(len(x)) or product(x)
    slot = model.open()
    model.prefill(slot, [3, 1, 4])
    assert not seen
    model.extend([Extension(slot, [5], [PREFIX])])
    assert seen == [1] * len(layers)
    model.extend([Extension(slot, [5, 9], [PREFIX, PREFIX])])
    assert len(seen) == len(layers)
    model.extend([Extension(slot, [5, 9], [PREFIX, PREFIX], wanted=[1])])
    assert seen == [1] * (len(layers) + 1)  # the head's


@pytest.mark.parametrize("family", ["gpt2", "qwen2"])
def test_without_bfloat16_products_the_check_at_load_covers_one_row(avx2, family, monkeypatch):
    """Of a head of fewer tokens, too; and of weights that lie the other way."""

    def load():
        model = build(CONFIGS[family]).to(torch.bfloat16)
        return TransformersModel(model, slots=2, head_tokens=range(40))

    layers = [m for m in load()._model.modules() if isinstance(m, PackedLinear)]
    assert layers and all(type(layer) is OneRowLinear for layer in layers)
    right = OneRowLinear._product
    monkeypatch.setattr(OneRowLinear, "_product", lambda layer, x: 1.2 * right(layer, x))
    with pytest.raises(UnsupportedModel, match="differs"):
        load()


def test_auto_is_bfloat16_where_one_row_is_faster_so(avx2, monkeypatch):
    assert resolve_dtype("auto", CPU) == torch.bfloat16
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "DEFAULT")
    assert resolve_dtype("auto", CPU) == torch.float32
    monkeypatch.setattr("torch.cpu._is_avx512_supported", lambda: True)
    for can in (True, False):  # emulated without
        monkeypatch.setattr("torch.cpu._is_avx512_bf16_supported", lambda can=can: can)
        assert resolve_dtype("auto", CPU) == (torch.bfloat16 if can else torch.float32)
