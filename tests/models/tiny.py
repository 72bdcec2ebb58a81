"""Tiny models with random weights, one per family, and their plain forward as the reference."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
)

VOCAB = 101
WINDOW = 8

SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    # Large, so that a wrong mask shows in the logits.
    "initializer_range": 0.4,
}
_ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]

CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SHAPE, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**SHAPE),
    "mistral": MistralConfig(**SHAPE, sliding_window=WINDOW),
    "gpt2": GPT2Config(
        vocab_size=VOCAB, n_embd=32, n_layer=3, n_head=4, n_positions=128, initializer_range=0.4
    ),
    "gemma2": Gemma2Config(
        **SHAPE, sliding_window=WINDOW, layer_types=_ALTERNATING, query_pre_attn_scalar=8
    ),
    "gemma3": Gemma3TextConfig(
        **SHAPE, sliding_window=WINDOW, layer_types=_ALTERNATING, query_pre_attn_scalar=8
    ),
}


def altered(name: str, **changes: object) -> PreTrainedConfig:
    """A family's tiny configuration with some values changed."""
    config = copy.deepcopy(CONFIGS[name])
    for key, value in changes.items():
        setattr(config, key, value)
    return config


def build(config: PreTrainedConfig, seed: int = 0) -> PreTrainedModel:
    """A model in float32 with transformers' own eager attention; equal seeds, equal weights."""
    torch.manual_seed(seed)
    # A copy: a model's choice of attention is written into its configuration.
    model = AutoModelForCausalLM.from_config(
        copy.deepcopy(config), dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval()


@torch.inference_mode()
def plain_logits(model: PreTrainedModel, tokens: Sequence[int]) -> torch.Tensor:
    """``[vocab_size]``, the logits after ``tokens``, from one forward without any cache."""
    return model(torch.tensor([list(tokens)]), use_cache=False).logits[0, -1]
