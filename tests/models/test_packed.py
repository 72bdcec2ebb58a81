"""Packed linear layers give what the layers they replace give."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from multidraft import UnsupportedModel
from multidraft.models import TransformersModel
from multidraft.models.load import resolve_dtype
from multidraft.models.packed import (
    HalfLinear,
    OneDnnLinear,
    PackedLinear,
    can_pack,
    pack_linears,
    replace_modules,
)
from multidraft.models.unpacked import fast_unpacked
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
    monkeypatch.setattr("multidraft.models.packed.has_bfloat16_products", lambda: False)
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this PyTorch has no products of float16 weights")
    assert can_pack(torch.bfloat16, CPU)


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


@pytest.mark.parametrize("rows", [1, 2, 6, 7, 40])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [1e-6, 0.02, 300.0])
def test_without_bfloat16_products_the_values_are_the_same(avx2, rows, bias, size):
    torch.manual_seed(rows)
    linear = nn.Linear(64, 96, bias=bias, dtype=torch.bfloat16).requires_grad_(False)
    linear.weight.normal_(std=size)
    layer = HalfLinear(linear.weight, linear.bias)
    x, other = torch.randn(1, rows, 64), torch.randn(1, rows, 96)
    x, other = x.bfloat16(), other.bfloat16()
    exact = nn.functional.linear(x.double(), linear.weight.double())
    exact += linear.bias.double() if bias else 0.0
    for found, expected in ((layer(x), exact), (layer.added(x, other), exact + other.double())):
        assert found.dtype == torch.bfloat16 and found.shape == (1, rows, 96)
        # A rounding of the result, and float32's of the terms of its sum.
        torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=size * 64 * 2**-22)


def test_without_bfloat16_products_the_weights_lose_nothing(avx2):
    """Thirty powers of two below the largest exactly, the rest to within 2^-40 of the largest."""
    weight = torch.tensor([1.9921875 * 2.0**-n for n in range(60)]).bfloat16() * 37
    layer = HalfLinear(weight[:, None].expand(60, 4), None)
    (found,) = layer._wide(torch.ones(1, 4)).double() / 4
    assert torch.equal(found[:31], weight[:31].double())
    assert (found - weight.double()).abs().max() <= 2**-40 * weight.max().double()
    assert not HalfLinear(torch.zeros(8, 4).bfloat16(), None)(torch.ones(1, 4)).any()


def test_without_bfloat16_products_what_is_no_number_stays_none(avx2):
    for wrong in (float("nan"), float("inf")):
        weight = torch.ones(8, 4).bfloat16()
        weight[3, 2] = wrong
        assert not HalfLinear(weight, None)(torch.ones(1, 4).bfloat16()).isfinite().all()


def test_without_bfloat16_products_every_layer_of_bfloat16_is_packed_so(avx2):
    """A head that shares the embedding's weight leaves it as it was; float32 keeps oneDNN's."""
    own = build(CONFIGS["llama"]).to(torch.bfloat16).get_input_embeddings().weight
    model = TransformersModel(build(CONFIGS["llama"]).to(torch.bfloat16), slots=1)
    layers = [m for m in model._model.modules() if isinstance(m, PackedLinear)]
    assert layers and all(type(layer) is HalfLinear for layer in layers)
    assert torch.equal(model._model.get_input_embeddings().weight, own)
    wide = TransformersModel(build(CONFIGS["llama"]), slots=1)
    assert type(wide._model.lm_head) is OneDnnLinear


def test_without_bfloat16_products_the_reference_is_computed_in_float32(avx2, monkeypatch):
    widened: list[torch.Size] = []

    def wide(tensor):
        widened.append(tensor.shape)
        return tensor.to(torch.float32)

    monkeypatch.setattr(torch.Tensor, "float", wide)
    torch.manual_seed(0)
    for layer in (nn.Linear(64, 96), nn.Linear(64, 96, bias=False)):
        layer, x = layer.bfloat16(), torch.randn(5, 64).bfloat16()
        exact = nn.functional.linear(x.double(), layer.weight.double())
        exact += 0 if layer.bias is None else layer.bias.double()
        with torch.inference_mode(), fast_unpacked():
            found = layer(x)
            assert nn.functional.linear(input=x, weight=layer.weight).dtype == torch.bfloat16
        operands = 2 * [(5, 64), (96, 64)] + [(96,)] * (layer.bias is not None)
        assert sorted(widened) == sorted(operands)
        widened.clear()
        torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("half", [True, False])
def test_replaced_modules_are_freed_one_by_one(half, monkeypatch):
    monkeypatch.setattr("multidraft.models.packed.has_half_products", lambda: half)
    monkeypatch.setattr("multidraft.models.packed._MOST_PACKERS", 1)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4)) for _ in range(4)))
    old = [weakref.ref(layer) for layer in model]
    held = []

    def made(layer):
        held.append(sum(ref() is not None for ref in old))
        return nn.Identity()

    assert replace_modules(model, lambda layer: type(layer) is nn.Sequential, made) == 4
    gc.collect()
    assert held == [4, 3, 2, 1] and not any(ref() for ref in old)
    assert all(type(layer) is nn.Identity for layer in model)

    def fails(layer):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        replace_modules(model, lambda layer: True, fails)


@pytest.mark.parametrize("family", ["gpt2", "qwen2"])
def test_without_bfloat16_products_the_check_at_load_sees_the_kernel(avx2, family, monkeypatch):
    """Of a head of fewer tokens, too; and of weights that lie the other way."""

    def load():
        model = build(CONFIGS[family]).to(torch.bfloat16)
        return TransformersModel(model, slots=2, head_tokens=range(40))

    layers = [m for m in load()._model.modules() if isinstance(m, PackedLinear)]
    assert layers and all(type(layer) is HalfLinear for layer in layers)
    right = HalfLinear._wide
    monkeypatch.setattr(HalfLinear, "_wide", lambda layer, x: 1.2 * right(layer, x))
    with pytest.raises(UnsupportedModel, match="differs"):
        load()


def test_auto_is_bfloat16_where_it_is_faster(avx2, monkeypatch):
    assert resolve_dtype("auto", CPU) == torch.bfloat16
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "DEFAULT")
    assert resolve_dtype("auto", CPU) == torch.float32
    monkeypatch.setattr("torch.cpu._is_avx512_supported", lambda: True)
    for can in (True, False):  # emulated without
        monkeypatch.setattr("torch.cpu._is_avx512_bf16_supported", lambda can=can: can)
        assert resolve_dtype("auto", CPU) == (torch.bfloat16 if can else torch.float32)
