"""A language model that is a plain function of its context: for tests, audits and examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from multidraft.errors import InvalidInput, InvalidLogits
from multidraft.models.base import PREFIX, Extension, NoFreeSlot


class FunctionModel:
    """Implements `LanguageModel` over ``law(context) -> next-token law``.

    Args:
        vocab_size: number of tokens.
        law: maps the tuple of all token ids so far (prompt included) to a law: ``vocab_size``
            non-negative numbers that sum to 1 (a sequence, array or tensor; used in float64).
        max_length: the most tokens a sequence may have.
        slots: sequences held at once.

    Temperature and truncation act on the law's logarithm. There is no text and no end token.

    Raises:
        InvalidInput: ``vocab_size`` or ``slots`` below 1.
        InvalidLogits: (when scoring) ``law`` returned something that is not a law.
    """

    tokenizer: Any = None
    eos_token_ids: frozenset[int] = frozenset()
    device = torch.device("cpu")

    def __init__(
        self,
        vocab_size: int,
        law: Callable[[tuple[int, ...]], Any],
        max_length: int = 1 << 20,
        slots: int = 64,
    ):
        if vocab_size < 1 or slots < 1:
            raise InvalidInput("A FunctionModel needs vocab_size >= 1 and slots >= 1.")
        self.vocab_size = vocab_size
        self.max_length = max_length
        self.num_slots = slots
        self._law = law
        self._free = list(range(slots))[::-1]
        self._prefix: dict[int, tuple[int, ...]] = {}
        self._open: dict[int, list[tuple[int, ...]]] = {}  # path of each open node, in tokens

    def open(self) -> int:
        if not self._free:
            raise NoFreeSlot(f"All {self.num_slots} slots are taken.")
        slot = self._free.pop()
        self._prefix[slot], self._open[slot] = (), []
        return slot

    def close(self, slot: int) -> None:
        del self._prefix[slot], self._open[slot]
        self._free.append(slot)

    def length(self, slot: int) -> int:
        return len(self._prefix[slot])

    def prefill(self, slot: int, tokens: Sequence[int]) -> None:
        self._prefix[slot] += tuple(tokens)

    def extend(self, extensions: Sequence[Extension]) -> list[torch.Tensor]:
        return [self._extend(extension) for extension in extensions]

    def _extend(self, extension: Extension) -> torch.Tensor:
        prefix, nodes = self._prefix[extension.slot], self._open[extension.slot]
        first = len(nodes)
        for token, parent in zip(extension.tokens, extension.parents, strict=True):
            nodes.append((*(() if parent == PREFIX else nodes[parent]), token))
        wanted = range(len(extension.tokens)) if extension.wanted is None else extension.wanted
        contexts = [prefix + nodes[first + i] for i in wanted]
        if not contexts:
            return torch.empty(0, self.vocab_size, dtype=torch.float64)
        return self._logits(contexts)

    def _logits(self, contexts: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """[n, V]: a row for each context."""
        laws = torch.stack([self._law_after(context) for context in contexts])
        sound = (laws >= 0).all(1) & ((laws.sum(1) - 1.0).abs() < 1e-6)
        if not bool(sound.all()):
            first = contexts[sound.tolist().index(False)]
            raise InvalidLogits(
                f"The law of context {_shown(first)} is no law: its entries must be "
                "non-negative and sum to 1."
            )
        return laws.log()

    def _law_after(self, context: tuple[int, ...]) -> torch.Tensor:
        law = torch.as_tensor(self._law(context), dtype=torch.float64)
        if law.shape != (self.vocab_size,):
            raise InvalidLogits(
                f"The law of context {_shown(context)} has shape {tuple(law.shape)}; "
                f"expected ({self.vocab_size},)."
            )
        return law

    def commit(self, slot: int, path: Sequence[int]) -> None:
        if path:
            self._prefix[slot] += self._open[slot][path[-1]]
        self._open[slot] = []

    def truncate(self, slot: int, length: int) -> None:
        self._prefix[slot] = self._prefix[slot][:length]
        self._open[slot] = []


def _shown(context: tuple[int, ...]) -> str:
    return str(context) if len(context) <= 8 else f"(… {str(context[-8:])[1:]}"
