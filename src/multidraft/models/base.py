"""The seam between the engine and whatever computes next-token logits.

A model keeps a few *slots*, one sequence each. A slot holds a committed prefix, whose state
is cached, and an *open tree* of nodes that hang below its end: tokens that were scored but may
still be dropped. Nodes of a slot are numbered 0, 1, 2, … in the order they were added since the
last commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from multidraft.errors import InvalidInput

#: Parent of a node that follows the committed prefix directly.
PREFIX = -1


class NoFreeSlot(RuntimeError):
    """Every slot of a model is taken; close one first."""


@dataclass(frozen=True)
class Extension:
    """New nodes for the open tree of one slot.

    Attributes:
        slot: the slot to extend.
        tokens: one token per new node.
        parents: one per new node: ``PREFIX``, or the number of an earlier node of the slot's open
            tree, nodes of this very extension included (a parent comes before its children).
        wanted: indices into ``tokens`` whose logits are needed; ``None`` means all of them.
    """

    slot: int
    tokens: Sequence[int]
    parents: Sequence[int]
    wanted: Sequence[int] | None = None


@runtime_checkable
class LanguageModel(Protocol):
    """A causal language model with slots, tree scoring, commit and roll-back.

    Implementations keep one invariant: the logits of a node depend only on the tokens on the path
    from the start of the prefix to that node; never on siblings, other slots, or dropped nodes.
    """

    vocab_size: int  # width of a row of logits
    max_length: int  # the most positions one sequence may take
    num_slots: int  # sequences held at once
    device: torch.device  # where logits live
    tokenizer: Any  # a transformers tokenizer, or None for a model without text
    eos_token_ids: frozenset[int]  # tokens that end a sequence; empty when there are none

    def open(self) -> int:
        """Take a free slot, empty. Raises NoFreeSlot when there is none."""
        ...

    def close(self, slot: int) -> None:
        """Give a slot back, forgetting what it held."""
        ...

    def length(self, slot: int) -> int:
        """Number of committed tokens of a slot."""
        ...

    def prefill(self, slot: int, tokens: Sequence[int]) -> None:
        """Append ``tokens`` to the committed prefix (in chunks where long); no logits are computed.

        Raises InvalidInput if the slot's open tree is not empty, or the sequence would exceed
        ``max_length``.
        """
        ...

    def extend(self, extensions: Sequence[Extension]) -> list[torch.Tensor]:
        """Score new nodes of several slots in one call.

        Returns one tensor per extension, ``[len(wanted or tokens), vocab_size]``: the logits of the
        token *after* each wanted node, on ``device``, in the model's own dtype. A slot may appear
        more than once; its later extensions follow the earlier ones.

        Raises InvalidInput, and leaves every slot as it was, if a parent does not come first, a
        token is unknown, or a path would exceed ``max_length``.
        """
        ...

    def commit(self, slot: int, path: Sequence[int]) -> None:
        """Append the nodes of ``path`` (each the parent of the next, the first a child of the
        prefix) to the committed prefix and forget every other node. An empty path drops the tree.

        Raises InvalidInput if ``path`` is no such path.
        """
        ...

    def truncate(self, slot: int, length: int) -> None:
        """Roll back: keep the first ``length`` committed tokens and drop the open tree.

        Raises InvalidInput if the slot holds fewer.
        """
        ...


def check_sequence(model: LanguageModel, tokens: Sequence[int], length: int) -> None:
    """Raises InvalidInput where ``tokens`` are not all the model's, or ``length`` is too long."""
    if tokens and not 0 <= min(tokens) <= max(tokens) < model.vocab_size:
        raise InvalidInput(f"Token ids must lie in 0 ... {model.vocab_size - 1}.")
    if length > model.max_length:
        raise InvalidInput(
            f"A sequence of {length} tokens exceeds this model's max_length of {model.max_length}."
        )
