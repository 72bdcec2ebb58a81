"""Decoder layers of the Llama family in fewer operations, for the CPU.

With a few rows a layer of transformers spends as much as a quarter of its time between the
products: on some sixty small operations and the calls around them. Here the products of one input
are one, the residual is added by the product that precedes it, and query and key turn together.
What is computed is the same; the check at load holds it against transformers' own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaDecoderLayer
from transformers.models.mistral.modeling_mistral import MistralDecoderLayer
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

from multidraft.models.attention import Plan, tree_attention
from multidraft.models.cache import SlotCache
from multidraft.models.packed import Pack, PackedLinear, can_pack, pack_best, replace_modules

# Exact types: a subclass may compute something else.
_FAMILY = (LlamaDecoderLayer, MistralDecoderLayer, Qwen2DecoderLayer)


class LeanLayer(nn.Module):
    """Takes the place of a decoder layer, whose weights it packs (see `PackedLinear`)."""

    def __init__(self, layer: Any, pack: Pack) -> None:
        super().__init__()
        attention, mlp = layer.self_attn, layer.mlp
        self.layer_idx: int = attention.layer_idx
        self._head_dim: int = attention.head_dim
        self._kv_heads = attention.k_proj.out_features // self._head_dim
        self._heads = attention.q_proj.out_features // self._head_dim
        self._scaling: float = attention.scaling
        self._window: int | None = getattr(attention, "sliding_window", None)
        if isinstance(layer, MistralDecoderLayer):
            self._window = attention.config.sliding_window
        self._act = mlp.act_fn
        self.norm_attention, self.norm_mlp = layer.input_layernorm, layer.post_attention_layernorm
        self.qkv = _joined(pack, attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = _joined(pack, attention.o_proj)
        self.gate_up = _joined(pack, mlp.gate_proj, mlp.up_proj)
        self.down = _joined(pack, mlp.down_proj)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        cache: SlotCache,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        multidraft_plan: Plan,
        **_: Any,
    ) -> torch.Tensor:
        """As transformers calls a decoder layer; ``[1, nodes, hidden]`` in and out."""
        x = hidden_states
        kv, nodes = self._kv_heads, x.shape[1]
        states = self.qkv(_normed(x, self.norm_attention))
        states = states.view(1, nodes, -1, self._head_dim).transpose(1, 2)
        cos, sin = multidraft_plan.rotation(*position_embeddings)
        turning = states[:, :-kv]
        # x * cos + rotate_half(x) * sin, the sign of the halves being in the sine.
        turned = torch.addcmul(turning * cos, turning.roll(self._head_dim // 2, -1), sin)
        keys, values = cache.update(turned[:, -kv:], states[:, -kv:], self.layer_idx)
        seen = tree_attention(
            self,
            turned[:, : self._heads],
            keys,
            values,
            attention_mask,
            scaling=self._scaling,
            sliding_window=self._window,
            multidraft_plan=multidraft_plan,
        )[0]
        x = self.out.added(seen.view(1, nodes, -1), x)
        gate, up = self.gate_up(_normed(x, self.norm_mlp)).chunk(2, -1)
        return self.down.added(self._act(gate) * up, x)


def _normed(x: torch.Tensor, norm: Any) -> torch.Tensor:
    weight: torch.Tensor = norm.weight
    return nn.functional.rms_norm(x, weight.shape, weight, norm.variance_epsilon)


def _joined(pack: Pack, *linears: nn.Linear) -> PackedLinear:
    weights: list[torch.Tensor] = [linear.weight for linear in linears]
    biases: list[torch.Tensor | None] = [linear.bias for linear in linears]
    bias = None
    if any(each is not None for each in biases):
        none = [weight.new_zeros(len(weight)) for weight in weights]
        bias = torch.cat([n if b is None else b for n, b in zip(none, biases, strict=True)])
    return pack(torch.cat(weights), bias)


def lean_layers(model: PreTrainedModel, pack: Pack = pack_best) -> int:
    """Replace every decoder layer that can be, in place; returns how many were."""
    return replace_modules(model, _plain, lambda layer: LeanLayer(layer, pack))


def _plain(layer: nn.Module) -> bool:
    """Whether it is a decoder layer all of whose products are ordinary and have a packed form."""
    if type(layer) not in _FAMILY:
        return False
    modules: list[Any] = list(layer.modules())
    products = [m for m in modules if hasattr(m, "weight") and m.weight.dim() == 2]
    return len(products) == 7 and all(
        type(m) is nn.Linear and can_pack(m.weight.dtype, m.weight.device) for m in products
    )
