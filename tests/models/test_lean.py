"""Lean layers against transformers' own, and which models get them."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import Qwen2Config

from multidraft.models import Extension
from multidraft.models.lean import LeanLayer, lean_layers
from multidraft.models.packed import can_pack
from multidraft.models.transformers_model import TransformersModel
from tests.models.tiny import CONFIGS, SHAPE, build, plain_logits

CPU = torch.device("cpu")
PROMPT = [7, 3, 55, 20, 7, 91, 4, 13, 60, 2, 17, 88]  # beyond the sliding window
LEAN = {"llama": 3, "qwen2": 3, "mistral": 3, "gpt2": 0, "gemma2": 0, "gemma3": 0}
BIASED = ("attention_bias", "mlp_bias")


def biased(name: str):
    """The configuration with a bias on every product that may have one."""
    config = copy.deepcopy(CONFIGS[name])
    for key in BIASED:
        if hasattr(config, key):
            setattr(config, key, True)
    return config


def with_random_biases(model):
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.dim() == 1:  # biases, and the weights of norms
                weights += 0.3 * torch.randn(weights.shape, generator=draw)
                assert name
    return model


def test_which_models_get_them():
    assert {name: lean_layers(build(config)) for name, config in CONFIGS.items()} == LEAN


@pytest.mark.parametrize("name", [name for name, count in LEAN.items() if count])
def test_the_same_logits(name):
    config = biased(name)
    model = TransformersModel(with_random_biases(build(config)), slots=1)
    assert any(isinstance(module, LeanLayer) for module in model._model.modules())
    slot = model.open()
    model.prefill(slot, PROMPT[:-1])
    (rows,) = model.extend([Extension(slot, [PROMPT[-1], 5, 9, 11], [-1, 0, 0, 2])])
    plain = with_random_biases(build(config))
    for row, path in zip(rows, ([], [5], [9], [9, 11]), strict=True):
        torch.testing.assert_close(row, plain_logits(plain, PROMPT + path), atol=1e-3, rtol=1e-3)


@pytest.mark.skipif(not can_pack(torch.bfloat16, CPU), reason="no bfloat16 products here")
def test_bfloat16_rounds_no_more_than_transformers_does():
    config = Qwen2Config(**{**SHAPE, "initializer_range": 0.1, "num_hidden_layers": 6})
    exact = plain_logits(build(config), PROMPT)
    own = plain_logits(build(config).to(torch.bfloat16), PROMPT).float()
    model = TransformersModel(build(config).to(torch.bfloat16), slots=1)
    slot = model.open()
    model.prefill(slot, PROMPT[:-1])
    (row,) = model.extend([Extension(slot, PROMPT[-1:], [-1])])
    error, usual = ((x - exact).pow(2).mean().sqrt() for x in (row[0].float(), own))
    assert error < 1.5 * usual


def test_what_is_not_plain_stays():
    """A layer with a product of another kind keeps transformers' form."""
    model = build(CONFIGS["llama"])

    class Other(torch.nn.Linear):
        pass

    old = model.model.layers[1].mlp.up_proj
    model.model.layers[1].mlp.up_proj = Other(old.in_features, old.out_features, bias=False)
    assert lean_layers(model) == 2
    assert not isinstance(model.model.layers[1], LeanLayer)


def test_weights_are_parameters():
    """What is no parameter would stay in the mapped file of weights."""
    model = build(CONFIGS["qwen2"])
    before = {tuple(p.shape) for p in model.parameters() if p.dim() == 1}
    lean_layers(model)
    norms = [p for p in model.parameters() if p.dim() == 1]
    assert len(norms) == 2 * 3 + 1 and {tuple(p.shape) for p in norms} < before
