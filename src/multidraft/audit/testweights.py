"""Weights of the test models: random, the same everywhere, at a wanted distance from each other."""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from multidraft.errors import InvalidInput

_TARGET, _OTHER, _CONTEXTS = range(3)  # streams of one seed
_PEAK = 0.55  # the target's mean largest probability: peaked, yet no token is out of reach
_PROMPT, _SAMPLED, _PROMPTS = 6, 8, 128  # the contexts in which the distance is measured
_STEPS = 8  # of t, from 0 to π/2


def build_models(
    distance: float, vocab_size: int, seed: int
) -> tuple[PreTrainedModel, PreTrainedModel]:
    """The target and the draft, in float32.

    The draft's weights are cos(t)·target + sin(t)·others, which have the target's spread at every
    t. All is measured in float64 and t is rounded, so that no library's rounding shows in them.

    Raises:
        InvalidInput: a distance that no t reaches.
    """
    target = _random_model(vocab_size, seed, _TARGET)
    contexts = _random_contexts(vocab_size, seed)
    _scale_head(target, contexts)
    contexts, laws = _sample(target, contexts, seed)
    other = _random_model(vocab_size, seed, _OTHER)
    with torch.no_grad():
        _head(other).mul_(_head(target).std() / _head(other).std())

    def distance_at(t: float) -> float:
        draft = _blend(target, other, t)
        return float((_laws(draft, contexts) - laws).abs().sum(-1).mean()) / 2

    # Far from the target the distance rises no more, so the bisection ends where it first does.
    distances = {t: distance_at(t) for t in np.linspace(0.0, math.pi / 2, _STEPS + 1).tolist()}
    end = next((t for t, reached in distances.items() if reached >= distance), None)
    if end is None or distance < 0.0:
        raise InvalidInput(
            f"The draft's distance from this target must be from 0 to "
            f"{max(distances.values()):.2f}, not {distance}."
        )
    t = round(_bisect(distance_at, distance, 0.0, end), 4)
    pair: list[Any] = [target, _blend(target, other, t)]
    return pair[0].float(), pair[1].float()


def _random_model(vocab_size: int, seed: int, stream: int) -> LlamaForCausalLM:
    """In float64. Each matrix has its own generator, whatever the order they are listed in."""
    config = LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="float32",
        vocab_size=vocab_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=128,
        tie_word_embeddings=False,
        # No token ends, begins or pads a text: an answer is as long as it was asked to be.
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng([]):  # the weights it draws are not used
        model: Any = LlamaForCausalLM(config)
    model.double().eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if weight.dim() == 2:  # the rest are the norms' ones
            key = [seed, zlib.crc32(name.encode()), stream]
            rng = np.random.Generator(np.random.PCG64(key))
            # Far above the usual initialisation: earlier tokens must show in every law.
            std = 1.0 if "embed" in name else 1 / math.sqrt(weight.shape[1])
            weight.copy_(torch.from_numpy(rng.normal(0.0, std, tuple(weight.shape))))
    return cast(LlamaForCausalLM, model)


def _head(model: LlamaForCausalLM) -> Tensor:
    return cast(nn.Linear, model.lm_head).weight


def _blend(target: LlamaForCausalLM, other: LlamaForCausalLM, t: float) -> LlamaForCausalLM:
    draft = copy.deepcopy(target)
    pairs = zip(draft.parameters(), other.parameters(), strict=True)
    for weight, added in pairs:
        if weight.dim() == 2:
            weight.copy_(math.cos(t) * weight + math.sin(t) * added)
    return draft


def _random_contexts(vocab_size: int, seed: int) -> Tensor:
    rng = np.random.Generator(np.random.PCG64([seed, 0, _CONTEXTS]))
    return torch.from_numpy(rng.integers(vocab_size, size=(_PROMPTS, _PROMPT)))


def _scale_head(model: LlamaForCausalLM, contexts: Tensor) -> None:
    """Set the head's spread so that the law's largest probability is _PEAK on average."""
    logits = _logits(model, contexts)

    def peak(scale: float) -> float:
        return float(torch.softmax(logits * scale, -1).amax(-1).mean())

    _head(model).mul_(round(_bisect(peak, _PEAK, 0.0, 100.0), 4))


def _sample(model: LlamaForCausalLM, contexts: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """The prompts with tokens sampled after them, and the model's law of each of those tokens."""
    rng = np.random.Generator(np.random.PCG64([seed, 1, _CONTEXTS]))
    for _ in range(_SAMPLED):
        law = _laws(model, contexts)[:, -1]
        threshold = torch.from_numpy(rng.random((len(law), 1)))
        token = torch.searchsorted(law.cumsum(-1), threshold, right=True)
        contexts = torch.cat([contexts, token.clamp_(max=law.shape[1] - 1)], 1)
    return contexts, _laws(model, contexts)


def _laws(model: LlamaForCausalLM, contexts: Tensor) -> Tensor:
    """Next-token laws after the prompt and after each sampled token, [prompts, positions, V]."""
    return torch.softmax(_logits(model, contexts), -1)


@torch.no_grad()
def _logits(model: LlamaForCausalLM, contexts: Tensor) -> Tensor:
    output: Any = model(contexts, use_cache=False)
    return cast(Tensor, output.logits[:, _PROMPT - 1 :])


def _bisect(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    while high - low > 1e-5:
        middle = (low + high) / 2
        if rising(middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2
