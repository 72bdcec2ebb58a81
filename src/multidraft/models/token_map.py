"""Which tokens two vocabularies share, and how one reads the tokens of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multidraft.errors import InvalidInput
from multidraft.models.base import LanguageModel
from multidraft.models.token_text import Meaning, TokenText

#: A target token is read as at most so many draft tokens, the last ones of its text.
_MOST_PIECES = 8


@dataclass(frozen=True)
class TokenMap:
    """A target's vocabulary in the tokens of a draft.

    Attributes:
        pieces: for each target token the draft tokens it is read as, one at least.
        shared: target tokens that are one draft token, each another: the draft can propose them.
        opening: draft tokens that every sequence begins with, before the target's.
    """

    pieces: Sequence[tuple[int, ...]]
    shared: Sequence[int]
    opening: tuple[int, ...] = ()

    def check(self, target_size: int, draft_size: int) -> None:
        """Refuse a map that does not fit vocabularies of these sizes.

        Raises:
            InvalidInput: nothing is shared, a token without pieces, a shared one that is no single
                draft token of its own, or too few or unknown tokens.
        """
        if not self.shared:
            raise InvalidInput(
                "Target and draft share no token, so the draft has nothing to propose; take "
                "another draft."
            )
        if len(self.pieces) != target_size or not all(self.pieces):
            raise InvalidInput(
                f"A token map needs pieces for each of the target's {target_size} tokens."
            )
        read = {piece for pieces in self.pieces for piece in pieces}.union(self.opening)
        if not 0 <= min(read) <= max(read) < draft_size:
            raise InvalidInput(f"A token map may use the draft's tokens 0 ... {draft_size - 1}.")
        single = {self.pieces[token] for token in self.shared if len(self.pieces[token]) == 1}
        if len(single) < len(self.shared):
            raise InvalidInput("Shared tokens must be single draft tokens, each of them another.")


def same_vocabulary(a: LanguageModel, b: LanguageModel) -> bool:
    """Whether two models' token ids mean the same. Without tokenizers, equal sizes must do."""
    if a.tokenizer is None or b.tokenizer is None:
        return a.vocab_size == b.vocab_size
    return a.tokenizer is b.tokenizer or a.tokenizer.get_vocab() == b.tokenizer.get_vocab()


def map_tokens(target: LanguageModel, draft: LanguageModel) -> TokenMap:
    """The map between two models' vocabularies, by their tokenizers.

    A target token is shared where its bytes are exactly those of one draft token; special tokens
    go by their names.

    Raises:
        InvalidInput: a model without a tokenizer, one whose tokens' bytes are not known, or
            nothing shared.
    """
    for name, model in (("target", target), ("draft", draft)):
        if model.tokenizer is None:
            raise InvalidInput(
                f"The {name} has no tokenizer, which is what vocabularies are compared by; load it "
                "from a folder that has one."
            )
    ours, theirs = TokenText(target.tokenizer), TokenText(draft.tokenizer)
    known = {m: token for m, token in theirs.ids().items() if token < draft.vocab_size}
    shared = [t for m, t in ours.ids().items() if m in known and t < target.vocab_size]
    meanings = ours.meanings
    padding = tuple(theirs.spell(b""))
    pieces = [
        _read(meanings[token], known, theirs, draft.vocab_size) if token in meanings else padding
        for token in range(target.vocab_size)
    ]
    opening = tuple(draft.tokenizer("").input_ids)
    begins = target.tokenizer("").input_ids
    if opening and begins:  # the sequences begin so already
        if begins[0] not in shared:
            pieces[begins[0]] = opening
        opening = ()
    return TokenMap(pieces, sorted(shared), opening)


def _read(
    meaning: Meaning, known: dict[Meaning, int], draft: TokenText, vocab_size: int
) -> tuple[int, ...]:
    if meaning in known:
        return (known[meaning],)
    spelt = [min(token, vocab_size - 1) for token in draft.spell(meaning)]
    return tuple(spelt[-_MOST_PIECES:])
