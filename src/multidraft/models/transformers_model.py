"""A LanguageModel over any full- or sliding-attention causal model that transformers loads."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedConfig, PreTrainedModel

from multidraft.errors import InvalidInput
from multidraft.models import selfcheck
from multidraft.models.attention import ATTENTION_NAME, Plan, Segment
from multidraft.models.base import PREFIX, Extension, NoFreeSlot, check_sequence
from multidraft.models.cache import SlotCache
from multidraft.models.four_bit import pack_four_bit, require_four_bit, round_weights
from multidraft.models.head import ReducedHead
from multidraft.models.layers import count_layers, of_layers
from multidraft.models.lean import lean_layers
from multidraft.models.packed import fewest_rows, pack_best, pack_linears

_DEFAULT_MAX_LENGTH = 4096
_PREFILL_CHUNK = 512
_TREE_ROWS = 64  # cache rows of a slot beyond max_length; more are added when a tree needs them


def _no_nodes() -> np.ndarray:
    return np.zeros((0, 0), dtype=bool)


@dataclass
class _Slot:
    """What a slot holds: the committed length, and the open tree.

    ``ancestry[i, j]`` says that open node ``j`` is node ``i`` or one of its ancestors.
    """

    committed: int = 0
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    ancestry: np.ndarray = field(default_factory=_no_nodes)

    def with_nodes(self, parents: Sequence[int]) -> _Slot:
        """The slot with new open nodes; raises InvalidInput where a parent does not come first."""
        old, total = len(self.parents), len(self.parents) + len(parents)
        ancestry = np.zeros((total, total), dtype=bool)
        ancestry[:old, :old] = self.ancestry
        depths = list(self.depths)
        for node, parent in enumerate(parents, start=old):
            if not PREFIX <= parent < node:
                raise InvalidInput(f"Node {node} has parent {parent}, which does not precede it.")
            if parent == PREFIX:
                depths.append(0)
            else:
                depths.append(depths[parent] + 1)
                ancestry[node] = ancestry[parent]
            ancestry[node, node] = True
        return _Slot(self.committed, [*self.parents, *parents], depths, ancestry)


class TransformersModel:
    """Slots, tree scoring, commit and roll-back over a transformers causal language model.

    The invariant of ``LanguageModel`` holds up to rounding: matrix kernels depend on the number of
    rows of a call.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        tokenizer: Any = None,
        eos_token_ids: Iterable[int] = (),
        max_length: int | None = None,
        slots: int = 8,
        head_tokens: Sequence[int] | None = None,
        four_bit: bool = False,
    ) -> None:
        """Take over ``model``: its attention and, on a CPU, its linear layers are replaced.

        Args:
            model: a causal language model, already on its device and in its dtype.
            tokenizer: kept for callers; not used here.
            eos_token_ids: tokens that end a sequence.
            max_length: the most positions of one sequence; the model's context, but at most 4096,
                when None.
            slots: sequences held at once.
            head_tokens: the only tokens to have logits, besides the end tokens; -inf for all
                others. For a draft, whose law may be any; a target needs all of them.
            four_bit: round the weights of linear layers to four bits, which a CPU reads sooner. For
                a draft; a target so rounded is another model.

        Raises:
            UnsupportedModel: the model is of a kind that cannot run exactly, or has no output
                layer that ``head_tokens`` could reduce.
            InvalidInput: ``max_length`` exceeds what the model can hold, a count is below 1,
                ``head_tokens`` are not distinct ids of the vocabulary, or ``four_bit`` for a model
                that is not in bfloat16 on a CPU that is faster so (see `can_be_four_bit`).
        """
        selfcheck.refuse_unsupported(model.config, type(model))
        self.max_length = resolve_max_length(max_length, model.config)
        if slots < 1:
            raise InvalidInput(f"A model needs at least one slot, not {slots}.")
        self.num_slots = slots
        self.device = model.device
        self.dtype = model.dtype
        self.tokenizer = tokenizer
        self.eos_token_ids = frozenset(eos_token_ids)

        self._model = model.train(False).requires_grad_(False)
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._cache = SlotCache(slots, self.max_length + _TREE_ROWS)
        self._slots: dict[int, _Slot] = {}
        #: The sliding windows that layers asked for in the last call (None: full attention).
        self.windows: set[int | None] = set()

        self.four_bit = four_bit
        pack = pack_four_bit if four_bit else pack_best
        if four_bit:
            require_four_bit(self.device, self.dtype)
            round_weights(model)  # what follows is checked against the rounded model
        reference = selfcheck.Reference(model)  # while the model is still transformers' own
        self.vocab_size = reference.vocab_size
        #: The output layer's rows, where it has not all of them.
        self.head: ReducedHead | None = None
        head = None
        if head_tokens is not None:  # the weights are still there to be taken from
            head = ReducedHead(model, head_tokens, self.eos_token_ids, self.vocab_size, pack)
        model.set_attn_implementation(ATTENTION_NAME)
        lean_layers(model, pack)
        pack_linears(model, pack)
        self._fewest_rows = fewest_rows(model)
        reference.compare(self)
        if head is not None:
            head.install(model)
            self.head = head
            reference.compare(self, head.tokens)

    @property
    def fingerprint(self) -> str:
        """Tells models apart by what their calls cost: architecture, sizes, dtype and device."""
        what = [self._model.config.to_json_string(), str(self.dtype), str(self.device)]
        if self.head is not None:
            what.append(f"head of {len(self.head.tokens)} tokens")
        if self.four_bit:
            what.append("four bits")
        return hashlib.sha256("\n".join(what).encode()).hexdigest()

    @property
    def num_layers(self) -> int:
        return count_layers(self._model.config)

    def with_layers(self, layers: Sequence[int]) -> TransformersModel:
        """A draft for this model that needs no weights of its own: its layers, some left out.

        Embeddings, layers and head are shared; the cache is not, as the layers after the first
        that is left out see other inputs. It has as many slots as this model.

        Args:
            layers: numbers of the layers to keep, rising.

        Raises:
            InvalidInput: layers that the model has not.
            UnsupportedModel: a model that does not run without them.
        """
        view = copy.copy(self)
        view._model = of_layers(self._model, layers)
        view._cache = SlotCache(self.num_slots, self.max_length + _TREE_ROWS)
        view._slots = {}
        view.windows = set()
        selfcheck.try_out(view)
        return view

    def open(self) -> int:
        for slot in range(self.num_slots):
            if slot not in self._slots:
                self._slots[slot] = _Slot()
                return slot
        raise NoFreeSlot(f"All {self.num_slots} slots are taken.")

    def close(self, slot: int) -> None:
        self._get(slot)
        del self._slots[slot]

    def length(self, slot: int) -> int:
        return self._get(slot).committed

    @torch.inference_mode()
    def prefill(self, slot: int, tokens: Sequence[int]) -> None:
        state = self._get(slot)
        if state.parents:
            raise InvalidInput(f"Slot {slot} has an open tree; commit or drop it before a prefill.")
        check_sequence(self, tokens, state.committed + len(tokens))
        for start in range(0, len(tokens), _PREFILL_CHUNK):
            chunk = tokens[start : start + _PREFILL_CHUNK]
            nodes = np.arange(len(chunk))
            segment = Segment(
                0,
                len(chunk),
                slot * self._cache.rows,
                state.committed,
                nodes,
                nodes[:, None] >= nodes,
            )
            self._forward(list(chunk), [segment], [])
            state.committed += len(chunk)

    @torch.inference_mode()
    def extend(self, extensions: Sequence[Extension]) -> list[torch.Tensor]:
        grown: dict[int, _Slot] = {}
        states: list[_Slot] = []
        for e in extensions:
            if len(e.tokens) != len(e.parents):
                raise InvalidInput(f"{len(e.tokens)} tokens came with {len(e.parents)} parents.")
            state = (grown.get(e.slot) or self._get(e.slot)).with_nodes(e.parents)
            grown[e.slot] = state
            states.append(state)
            check_sequence(self, e.tokens, state.committed + max(state.depths, default=-1) + 1)
        self._reserve(max((s.committed + len(s.parents) for s in grown.values()), default=0))

        tokens: list[int] = []
        wanted: list[int] = []
        counts: list[int] = []
        segments: list[Segment] = []
        for e, state in zip(extensions, states, strict=True):
            start = len(tokens)
            tokens += e.tokens
            picks = range(len(e.tokens)) if e.wanted is None else e.wanted
            wanted += [start + pick for pick in picks]
            counts.append(len(picks))
            if e.tokens:
                segments.append(self._segment(e.slot, state, start, len(tokens)))
        logits = self._forward(tokens, segments, wanted) if tokens else self._no_logits()
        self._slots.update(grown)  # only now: a call that failed leaves every slot as it was
        return list(torch.split(logits, counts))

    @torch.inference_mode()
    def commit(self, slot: int, path: Sequence[int]) -> None:
        state = self._get(slot)
        for previous, node in zip([PREFIX, *path], path, strict=False):
            if not 0 <= node < len(state.parents) or state.parents[node] != previous:
                raise InvalidInput(f"Node {node} is no child of node {previous} in slot {slot}.")
        # Nodes already in place need no copy: a chain, or a tree scored best branch first.
        moved = [(node, i) for i, node in enumerate(path) if node != i]
        if moved:
            first = slot * self._cache.rows + state.committed
            self._cache.move([first + node for node, _ in moved], [first + i for _, i in moved])
        self._slots[slot] = _Slot(state.committed + len(path))

    def truncate(self, slot: int, length: int) -> None:
        state = self._get(slot)
        if not 0 <= length <= state.committed:
            raise InvalidInput(
                f"Slot {slot} holds {state.committed} tokens and cannot keep {length}."
            )
        self._slots[slot] = _Slot(length)

    def _get(self, slot: int) -> _Slot:
        try:
            return self._slots[slot]
        except KeyError:
            raise InvalidInput(f"Slot {slot} is not open.") from None

    def _reserve(self, rows: int) -> None:
        if rows > self._cache.rows:
            self._cache.grow(rows + _TREE_ROWS)

    def _segment(self, slot: int, state: _Slot, start: int, stop: int) -> Segment:
        return Segment(
            start,
            stop,
            slot * self._cache.rows,
            state.committed,
            np.array(state.depths),
            state.ancestry[start - stop :],
        )

    def _no_logits(self) -> torch.Tensor:
        return torch.empty(0, self.vocab_size, dtype=self.dtype, device=self.device)

    def _forward(
        self, tokens: list[int], segments: list[Segment], wanted: list[int]
    ) -> torch.Tensor:
        """Run the model over one flat row of nodes; ``[len(wanted), vocab_size]``."""
        positions: list[int] = []
        rows: list[int] = []
        for s in segments:
            new = s.stop - s.start
            positions += (s.committed + s.depths[-new:]).tolist()
            end = s.first_row + s.committed + len(s.depths)
            rows += range(end - new, end)
        # Columns that only fill up repeat the last node, its cache row included: what they write
        # there is what it writes, and experts see no token of their own.
        filler = max(0, self._fewest_rows - len(tokens))
        plan = Plan(self._row(rows), segments, filler)
        self._cache.target = plan.rows
        kwargs: dict[str, Any] = {
            "input_ids": self._row(tokens)[None],
            "position_ids": self._row(positions)[None],
            "cache": self._cache,
            "use_cache": True,
            "multidraft_plan": plan,
        }
        if not wanted:  # the head is a large part of a small model: leave it out
            self._model.base_model(**kwargs)
            logits = self._no_logits()
        elif self._keeps_logits:
            logits = self._model(**kwargs, logits_to_keep=self._row(wanted)).logits[0]
            logits = logits[: len(wanted)]
        else:
            logits = self._model(**kwargs).logits[0, wanted]
        self.windows = plan.windows()
        if self.head is not None and wanted:
            logits = self.head.widen(logits)
        return logits

    def _row(self, values: list[int]) -> torch.Tensor:
        """int64 ``[n]`` on the device, the last value repeated up to the fewest rows."""
        filled = values + values[-1:] * (self._fewest_rows - len(values))
        return torch.tensor(filled, dtype=torch.int64).to(self.device)


def resolve_max_length(requested: int | None, config: PreTrainedConfig) -> int:
    limit, reason = selfcheck.position_limit(config)
    if requested is None:
        return min(limit, _DEFAULT_MAX_LENGTH) if limit is not None else _DEFAULT_MAX_LENGTH
    if requested < selfcheck.MIN_LENGTH:
        raise InvalidInput(f"max_length must be at least {selfcheck.MIN_LENGTH}, not {requested}.")
    if limit is not None and requested > limit:
        raise InvalidInput(f"max_length {requested} exceeds {limit}, {reason}.")
    return requested
