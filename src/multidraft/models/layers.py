"""A model made of some of another's layers: the same modules, another order of the day."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from multidraft.errors import InvalidInput, UnsupportedModel


def count_layers(config: PreTrainedConfig) -> int:
    """Number of a causal language model's layers."""
    return int(config.get_text_config().num_hidden_layers)


def check_layers(layers: Sequence[int], total: int) -> None:
    """Raises InvalidInput unless ``layers`` are some of 0 ... ``total`` - 1 in rising order."""
    rising = all(a < b for a, b in itertools.pairwise(layers))
    if not layers or not rising or layers[0] < 0 or layers[-1] >= total:
        raise InvalidInput(
            f"The layers to keep are numbers from 0 to {total - 1} in rising order, at least one; "
            f"not {', '.join(map(str, layers)) or 'none'}."
        )


def of_layers(model: PreTrainedModel, layers: Sequence[int]) -> PreTrainedModel:
    """The model without its other layers, sharing every module it keeps. The original is untouched.

    Args:
        model: any causal language model of transformers.
        layers: numbers of the layers to keep, rising.

    Raises:
        InvalidInput: layers that the model has not.
        UnsupportedModel: the layers cannot be found in the model.
    """
    total = count_layers(model.config)
    check_layers(layers, total)
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == total:
            config = _with_layers(model.config, layers)
            kept = nn.ModuleList([module[i] for i in layers])
            twin = _replaced(model, name.split("."), kept, config)
            assert isinstance(twin, PreTrainedModel)
            return twin
    raise UnsupportedModel(
        f"Models of type {model.config.model_type} cannot leave out layers: there is no list of "
        f"their {total} layers."
    )


def _with_layers(config: PreTrainedConfig, layers: Sequence[int]) -> PreTrainedConfig:
    new = copy.deepcopy(config)
    text = new.get_text_config()
    types = getattr(text, "layer_types", None)
    if types is not None:  # of each layer, found by its place among those that are left
        text.layer_types = [types[i] for i in layers]
    text.num_hidden_layers = len(layers)
    return new


def _replaced(
    module: nn.Module, path: list[str], new: nn.Module, config: PreTrainedConfig
) -> nn.Module:
    """A copy of ``module`` with ``new`` at ``path``; copies are made along the path only."""
    twin = copy.copy(module)
    children = dict(module._modules)
    head, *rest = path
    child = children[head]
    assert child is not None
    children[head] = _replaced(child, rest, new, config) if rest else new
    # Set beside nn.Module's own bookkeeping, which would add to the original's dictionary.
    twin.__dict__["_modules"] = children
    if isinstance(getattr(module, "config", None), PreTrainedConfig):
        twin.__dict__["config"] = config
    return twin
