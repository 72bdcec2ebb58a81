"""A draft model with another tokenizer, made to speak the target's vocabulary.

It reads each target token as the draft's tokens for the same text, and its law is the draft's,
renormalised over the tokens that both have: the law it proposes from, so the output's stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from multidraft.errors import InvalidInput
from multidraft.models.base import Extension, LanguageModel, check_sequence
from multidraft.models.reading import Reading
from multidraft.models.token_map import TokenMap, map_tokens, same_vocabulary

#: Below this share of tokens that a draft can propose it is no help: even one that is right
#: wherever it can be then gets less than one token accepted per round.
ENOUGH = 0.5


class TranslatedModel:
    """A `LanguageModel` over the target's vocabulary that asks a draft of another.

    Logits are the draft's for shared tokens and -inf for all others, ``[n, target.vocab_size]``.
    Sequences may be as long as the target's: of one that is too long for the draft's context, in
    draft tokens, the draft reads the last part (see `Reading`).

    Args:
        model: the draft.
        target: whose vocabulary to speak.
        token_map: between the two; None works it out from their tokenizers.

    Raises:
        InvalidInput: no map can be made (see `map_tokens`), one that does not fit the models, or
            a draft whose context is too short.
    """

    def __init__(
        self, model: LanguageModel, target: LanguageModel, token_map: TokenMap | None = None
    ):
        self._map = token_map or map_tokens(target, model)
        self._map.check(target.vocab_size, model.vocab_size)
        self._half = (model.max_length - len(self._map.opening)) // 2
        if self._half < 1:
            raise InvalidInput(
                f"The draft's context of {model.max_length} tokens is too short; load it with a "
                "larger max_length."
            )
        self._model = model
        self.vocab_size = target.vocab_size
        self.max_length = target.max_length
        self.num_slots = model.num_slots
        self.device = model.device
        self.tokenizer: Any = target.tokenizer
        self.eos_token_ids = target.eos_token_ids
        self._shared = frozenset(self._map.shared)
        single = [self._map.pieces[token][0] for token in self._map.shared]
        self._to = torch.tensor(self._map.shared, device=self.device)
        self._from = torch.tensor(single, device=self.device)
        self._readings: dict[int, Reading] = {}

    @property
    def shared(self) -> int:
        """How many of the target's tokens the draft can propose."""
        return len(self._shared)

    def coverage(self, tokens: Sequence[int]) -> float:
        """Share, 0 to 1, of these target tokens that the draft could have proposed.

        Raises InvalidInput where there are none.
        """
        if not tokens:
            raise InvalidInput("There are no tokens to look for in the draft's vocabulary.")
        return sum(token in self._shared for token in tokens) / len(tokens)

    def describe(self, tokens: Sequence[int]) -> str:
        """One sentence for users: what is shared, and whether that is enough for such text."""
        covered = self.coverage(tokens)
        text = (
            f"The draft has another tokenizer: it shares {self.shared:,} of the target's "
            f"{self.vocab_size:,} tokens and could propose {covered:.0%} of this text's"
        )
        if covered >= ENOUGH:
            return f"{text}."
        return (
            f"{text}, too few to help; take a draft of the target's own family, or decode without "
            "one."
        )

    def open(self) -> int:
        slot = self._model.open()
        self._readings[slot] = Reading(self._map.pieces, self._half)
        return slot

    def close(self, slot: int) -> None:
        self._get(slot)
        self._model.close(slot)
        del self._readings[slot]

    def length(self, slot: int) -> int:
        return len(self._get(slot).tokens)

    def prefill(self, slot: int, tokens: Sequence[int]) -> None:
        reading = self._get(slot)
        if reading.nodes:
            raise InvalidInput(f"Slot {slot} has an open tree; commit or drop it before a prefill.")
        check_sequence(self, tokens, len(reading.tokens) + len(tokens))
        first, reading.first = reading.first, None
        new = reading.append(tokens)
        if first == reading.next_window:
            self._model.prefill(slot, new)
            reading.first = first
        else:
            self._load(slot, reading.next_window)

    @torch.inference_mode()
    def extend(self, extensions: Sequence[Extension]) -> list[torch.Tensor]:
        known = {e.slot: len(self._get(e.slot).nodes) for e in extensions}
        wanted: list[tuple[int, int]] = []  # slot and node of each row
        counts: list[int] = []
        try:
            for e in extensions:
                first = len(self._readings[e.slot].nodes)
                self._add(e)
                picks = range(len(e.tokens)) if e.wanted is None else e.wanted
                wanted += [(e.slot, first + pick) for pick in picks]
                counts.append(len(picks))
            rows = self._score(known, wanted)
        except BaseException:
            for slot, count in known.items():
                reading = self._readings[slot]
                del reading.nodes[count:]
                reading.first = None  # the draft may have got some of it
            raise
        return list(torch.split(rows, counts))

    def commit(self, slot: int, path: Sequence[int]) -> None:
        reading = self._get(slot)
        inner = reading.path(path)
        if inner is None:
            reading.first = None
        else:
            self._model.commit(slot, inner)
        reading.commit(path)

    def truncate(self, slot: int, length: int) -> None:
        reading = self._get(slot)
        if not 0 <= length <= len(reading.tokens):
            raise InvalidInput(
                f"Slot {slot} holds {len(reading.tokens)} tokens and cannot keep {length}."
            )
        first, reading.first = reading.first, None
        kept = reading.truncate(length)
        if first is not None and first <= kept:
            self._model.truncate(slot, len(self._map.opening) + kept - first)
            reading.first = first

    def _get(self, slot: int) -> Reading:
        try:
            return self._readings[slot]
        except KeyError:
            raise InvalidInput(f"Slot {slot} is not open.") from None

    def _add(self, extension: Extension) -> None:
        if len(extension.tokens) != len(extension.parents):
            raise InvalidInput(
                f"{len(extension.tokens)} tokens came with {len(extension.parents)} parents."
            )
        check_sequence(self, extension.tokens, 0)
        reading = self._readings[extension.slot]
        first = len(reading.nodes)
        reading.add(extension)
        check_sequence(self, (), max((node.length for node in reading.nodes[first:]), default=0))

    def _score(self, known: dict[int, int], wanted: Sequence[tuple[int, int]]) -> torch.Tensor:
        """Score the nodes of each slot beyond the ``known`` ones. One call of the draft, unless
        some contexts begin later than others."""
        numbers = {slot: [n for s, n in wanted if s == slot] for slot in known}
        windows = {s: self._readings[s].windows(numbers[s], count) for s, count in known.items()}
        found: dict[tuple[int, int], torch.Tensor] = {}
        for turn in range(max(map(len, windows.values()), default=0)):
            rows: list[tuple[int, int]] = []
            extensions = []
            for slot in [s for s in known if turn < len(windows[s])]:
                reading, window = self._readings[slot], windows[slot][turn]
                if turn > 0 or reading.first != window:
                    self._load(slot, window, known[slot])
                tokens, parents, before = reading.place(known[slot], window)
                picks = [n for n in numbers[slot] if reading.window(reading.nodes[n].end) == window]
                rows += [(slot, n) for n in picks]
                last = [reading.nodes[n].last - before for n in picks]
                extensions.append(Extension(slot, tokens, parents, last))
            logits = self._model.extend(extensions)
            found.update(zip(rows, (row for part in logits for row in part), strict=True))
        return self._widen([found[row] for row in wanted])

    def _load(self, slot: int, window: int, known: int = 0) -> None:
        """Make the draft's slot hold the sequence from ``window`` on, and its first ``known`` open
        nodes."""
        reading = self._readings[slot]
        reading.first = None
        self._model.truncate(slot, 0)
        self._model.prefill(slot, [*self._map.opening, *reading.committed(window)])
        tokens, parents, _ = reading.place(0, window, known)
        if tokens:
            self._model.extend([Extension(slot, tokens, parents, [])])
        reading.first = window

    def _widen(self, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """The draft's rows of logits as rows over the target's vocabulary."""
        if not rows:
            return torch.empty(0, self.vocab_size, device=self.device)
        logits = torch.stack(list(rows))
        values = logits[:, self._from]
        # A sound draft that is sure of what the target lacks: any law over what both have will do.
        lost = (values.amax(1) == -torch.inf) & logits.amax(1).isfinite()
        values.masked_fill_(lost[:, None], 0.0)
        wide = values.new_full((len(rows), self.vocab_size), -torch.inf)
        wide[:, self._to] = values
        return wide


def share_vocabulary(draft: LanguageModel, target: LanguageModel) -> LanguageModel:
    """The draft as one that speaks the target's vocabulary: itself where the tokenizers agree, else
    a `TranslatedModel`.

    Raises:
        InvalidInput: a model without a tokenizer, one whose tokens' bytes are not known, or nothing
            shared.
    """
    return draft if same_vocabulary(target, draft) else TranslatedModel(draft, target)
