"""An output layer with the rows of some tokens only, for models that draft.

The output layer is a large part of a small model's step, and most of its rows belong to tokens that
hardly ever come. A draft without them has another law, the one renormalised over the rest; as it is
the law that its tokens are drawn from, verification stays exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral

import torch
from torch import nn
from transformers import PreTrainedModel

from multidraft.errors import InvalidInput, UnsupportedModel
from multidraft.models.packed import Pack, can_pack, pack_best


class ReducedHead:
    """The rows of a model's output layer for some tokens, and logits of the full width from theirs.

    Made while the output layer is still transformers' own. After `install` the model gives logits
    ``[..., n]``, so what it does to them after the layer (a scale, a soft cap) is done to these
    alone; `widen` then puts them among -inf, which no soft cap can make finite.

    Args:
        model: a causal language model.
        tokens: distinct ids; those of ``always`` join them.
        always: ids that are on every list, such as end tokens; any outside the vocabulary are
            passed over.
        vocab_size: V, the width of the model's logits.
        pack: how the rows are laid out where they can be.

    Raises:
        InvalidInput: no ids, ids outside the vocabulary, or one twice.
        UnsupportedModel: the output layer is not a plain linear one with a row per token.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokens: Sequence[int],
        always: Iterable[int],
        vocab_size: int,
        pack: Pack = pack_best,
    ) -> None:
        check_ids(tokens, vocab_size)
        layer = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        if type(layer) is not nn.Linear or layer.out_features != vocab_size:
            raise UnsupportedModel(
                f"Models of type {model.config.model_type} have no plain linear output layer whose "
                "rows could be chosen; load this one without head_tokens."
            )
        chosen = {int(token) for token in tokens}
        chosen |= {token for token in always if 0 <= token < vocab_size}
        self.vocab_size = vocab_size
        #: int64 ``[n]``, rising: the tokens that have logits.
        self.tokens = torch.tensor(sorted(chosen), device=layer.weight.device)
        self._layer = _rows_of(layer, self.tokens, pack)

    def install(self, model: PreTrainedModel) -> None:
        """Replace the output layer, whose memory is freed unless the input embedding shares it."""
        model.set_output_embeddings(self._layer)  # type: ignore[no-untyped-call]

    def widen(self, logits: torch.Tensor) -> torch.Tensor:
        """``[rows, n]`` as ``[rows, V]``, -inf for every other token."""
        wide = logits.new_full((len(logits), self.vocab_size), -torch.inf)
        return wide.index_copy_(1, self.tokens, logits)


def check_ids(tokens: Sequence[int], vocab_size: int) -> None:
    """Raises InvalidInput unless ``tokens`` are one or more distinct ids below ``vocab_size``."""
    if len(tokens) == 0:
        raise InvalidInput("head_tokens is empty; give at least one token id.")
    seen: set[int] = set()
    for token in tokens:
        if not isinstance(token, Integral) or not 0 <= token < vocab_size:
            raise InvalidInput(
                f"head_tokens holds {token!r}; token ids are integers from 0 to {vocab_size - 1}."
            )
        if token in seen:
            raise InvalidInput(f"head_tokens holds token {token} more than once; give each once.")
        seen.add(int(token))


@torch.no_grad()
def _rows_of(layer: nn.Linear, tokens: torch.Tensor, pack: Pack) -> nn.Module:
    weight = layer.weight[tokens]
    bias = None if layer.bias is None else layer.bias[tokens]
    if can_pack(weight.dtype, weight.device):
        return pack(weight, bias)
    rows = nn.Linear(layer.in_features, len(tokens), bias=bias is not None, device="meta")
    rows.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        rows.bias = nn.Parameter(bias, requires_grad=False)
    return rows
