"""The key/value cache: fixed rows for every slot, written and moved by row number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import Cache


class SlotCache(Cache):
    """Keys and values of every layer, ``[kv_heads, slots * rows, d]`` each.

    Slot ``s`` owns rows ``s * rows`` up to ``(s + 1) * rows``. Nothing here knows which rows are
    live. Memory is taken layer by layer when the first keys arrive, whose shape, dtype and device
    it follows. transformers' own static cache has one length for all its sequences and drops
    what leaves a sliding window; both would be wrong for trees.
    """

    def __init__(self, slots: int, rows: int) -> None:
        super().__init__(layers=[])
        self.slots = slots
        self.rows = rows
        #: int64 ``[nodes]``: the rows that the next ``update`` of every layer writes.
        self.target = torch.empty(0, dtype=torch.int64)
        self._keys: dict[int, torch.Tensor] = {}
        self._values: dict[int, torch.Tensor] = {}

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, **_: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new keys and values ``[1, kv_heads, nodes, d]`` into the target rows.

        Returns the whole cache of the layer, ``[1, kv_heads, slots * rows, d]`` each.
        """
        if layer_idx not in self._keys:
            self._keys[layer_idx] = self._allocate(key_states)
            self._values[layer_idx] = self._allocate(value_states)
        keys, values = self._keys[layer_idx], self._values[layer_idx]
        keys.index_copy_(2, self.target, key_states)
        values.index_copy_(2, self.target, value_states)
        return keys, values

    def move(self, source: Sequence[int], destination: Sequence[int]) -> None:
        """Copy rows to other rows in every layer; all are read before any is written."""
        src = torch.tensor(source, device=self.target.device)
        dst = torch.tensor(destination, device=self.target.device)
        for storage in (*self._keys.values(), *self._values.values()):
            storage.index_copy_(2, dst, storage.index_select(2, src))

    def grow(self, rows: int) -> None:
        """Give every slot ``rows`` rows (at least as many as before), keeping what is stored."""
        for storage in (self._keys, self._values):
            for layer, old in storage.items():
                heads, width = old.shape[1], old.shape[3]
                new = old.new_empty(1, heads, self.slots, rows, width)
                new[:, :, :, : self.rows] = old.view(1, heads, self.slots, self.rows, width)
                storage[layer] = new.view(1, heads, self.slots * rows, width)
        self.rows = rows

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Always 0: there is no one length, and positions are passed to the model."""
        return 0

    def _allocate(self, states: torch.Tensor) -> torch.Tensor:
        return states.new_empty(1, states.shape[1], self.slots * self.rows, states.shape[3])
