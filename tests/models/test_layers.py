"""A model without some of its layers, against the same weights in a model built that way."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from multidraft.errors import InvalidInput, UnsupportedModel
from multidraft.models import Extension
from multidraft.models.layers import of_layers
from multidraft.models.transformers_model import TransformersModel
from tests.models.tiny import CONFIGS, build, plain_logits

PROMPT = [7, 3, 55, 20, 7, 91, 4, 13, 60, 2, 17, 88]  # beyond the sliding window
KEPT = [0, 2]


def cut_down(name: str) -> nn.Module:
    """The same weights in a model of transformers' own that has only the kept layers."""
    config = copy.deepcopy(CONFIGS[name])
    types = getattr(config, "layer_types", None)
    if types is not None:
        config.layer_types = [types[i] for i in KEPT]
    config.num_hidden_layers = len(KEPT)
    small, weights = build(config), build(CONFIGS[name]).state_dict()
    stack = "transformer.h" if name == "gpt2" else "model.layers"
    for new, old in reversed(list(enumerate(KEPT))):
        for key in [k for k in weights if k.startswith(f"{stack}.{old}.")]:
            weights[key.replace(f"{stack}.{old}.", f"kept.{new}.")] = weights[key]
    wanted = {k: weights[k.replace(f"{stack}.", "kept.")] for k in small.state_dict()}
    small.load_state_dict(wanted)
    return small


@pytest.mark.parametrize("name", CONFIGS)
def test_kept_layers_compute_what_a_model_of_them_does(name: str) -> None:
    whole = TransformersModel(build(CONFIGS[name]), slots=2)
    view = whole.with_layers(KEPT)
    slot = view.open()
    view.prefill(slot, PROMPT[:-1])
    tree = Extension(slot, [PROMPT[-1], 5, 9, 11], [-1, 0, 0, 2])
    (logits,) = view.extend([tree])
    small = cut_down(name)
    for row, path in zip(logits, ([], [5], [9], [9, 11]), strict=True):
        expected = plain_logits(small, PROMPT + path)
        torch.testing.assert_close(row, expected, atol=2e-4, rtol=1e-3)


def test_the_whole_model_stays_as_it_is() -> None:
    whole = TransformersModel(build(CONFIGS["qwen2"]), slots=2)
    slot = whole.open()
    whole.prefill(slot, PROMPT[:-1])
    view = whole.with_layers([0])
    other = view.open()
    view.prefill(other, [1, 2, 3])
    view.extend([Extension(other, [4, 5], [-1, 0])])
    assert (whole.num_layers, view.num_layers) == (3, 1)
    assert view.length(other) == 3 and whole.length(slot) == len(PROMPT) - 1
    (row,) = whole.extend([Extension(slot, PROMPT[-1:], [-1])])
    expected = plain_logits(build(CONFIGS["qwen2"]), PROMPT)
    torch.testing.assert_close(row[0], expected, atol=2e-4, rtol=1e-3)
    assert view.fingerprint != whole.fingerprint  # their calls cost different times


def test_weights_are_shared() -> None:
    model = build(CONFIGS["llama"])
    twin = of_layers(model, [1])
    assert {id(p) for p in twin.parameters()} < {id(p) for p in model.parameters()}


@pytest.mark.parametrize("layers", [[], [3], [-1, 0], [1, 0], [1, 1]])
def test_layers_that_are_not_there(layers: list[int]) -> None:
    model = TransformersModel(build(CONFIGS["llama"]))
    with pytest.raises(InvalidInput, match="from 0 to 2 in rising order"):
        model.with_layers(layers)


def test_a_model_without_a_list_of_layers() -> None:
    model = build(CONFIGS["llama"])
    stack = model.model.layers
    model.model.layers = nn.ModuleList([*stack, stack[0]])  # now the configuration is wrong
    with pytest.raises(UnsupportedModel, match="no list of their 3 layers"):
        of_layers(model, [0])
