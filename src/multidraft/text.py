"""Text from tokens as they come: detokenisation piece by piece, and stop strings.

Decoding a token alone is not enough: it may hold part of a character, and sentencepiece
tokenizers drop the space before the first token they are given. So a few tokens are decoded
together with those before them, and what that adds to the text already known is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import InvalidInput

__all__ = ["TextStream", "special_ids"]

_BAD = "\ufffd"  # what decoders write for bytes that are not, or not yet, a character
_LONGEST = 4  # bytes in a character


def special_ids(tokenizer: Any) -> frozenset[int]:
    """The ids ``tokenizer.decode(..., skip_special_tokens=True)`` leaves out.

    ``all_special_ids`` has only those with a role (eos, pad, ...), not a chat format's markers.
    """
    added = tokenizer.added_tokens_decoder
    marked = (token for token, about in added.items() if about.special)
    return frozenset(tokenizer.all_special_ids).union(marked)


class TextStream:
    """The text of one answer, token by token; the same however the tokens are grouped in pushes.

    tokenizer: a transformers tokenizer.
    stop: strings, none empty, that end the text just before themselves. The one completed first
        counts; of several completed by the same character, the one that starts first.
    special: ids of tokens to leave out of the text; see ``special_ids``.

    Without a stop string the text is ``tokenizer.decode`` of all the tokens but the special ones.
    One case differs: a run of byte tokens of a byte-fallback tokenizer that is not valid UTF-8.
    Such a tokenizer makes the whole run unreadable in hindsight, the characters already shown too.

    Raises InvalidInput for an empty stop string.
    """

    def __init__(
        self, tokenizer: Any, stop: Sequence[str] = (), special: frozenset[int] = frozenset()
    ) -> None:
        if "" in stop:
            raise InvalidInput("A stop string is empty; leave it out, or give it text.")
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._special = special
        # Tokens decoded together: those before, for context, then those not yet settled. The first
        # _known characters of what they decode to are text already.
        self._before: list[int] = []
        self._unsettled: list[int] = []
        self._known = 0
        self._pieces: list[str] = []
        self._held = ""  # known, but perhaps the beginning of a stop string
        self._tokens_used = 0
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string has come; pushes then change nothing."""
        return self._stopped

    @property
    def tokens_used(self) -> int:
        """How many of the tokens pushed the text needs: up to the one completing the stop string,
        or all."""
        return self._tokens_used

    @property
    def text(self) -> str:
        """All the text returned so far; the final text once ``stopped``, or after ``finish``."""
        return "".join(self._pieces)

    def push(self, tokens: Sequence[int]) -> str:
        """Takes the tokens that come next; returns the text that is now sure, and new."""
        first = len(self._pieces)
        for token in tokens:
            if self._stopped:
                break
            self._tokens_used += 1
            if token not in self._special and self._is_known(token):
                self._show(self._decode_one(token))
        return "".join(self._pieces[first:])

    def finish(self) -> str:
        """Ends the stream: returns what was held back, unfinished characters included."""
        first = len(self._pieces)
        if not self._stopped:
            if self._unsettled:
                self._show(self._decode(self._before + self._unsettled)[self._known :])
                self._settle()
            self._pieces.append(self._held)
            self._held = ""
        return "".join(self._pieces[first:])

    def _is_known(self, token: int) -> bool:
        """Models have more logits than the tokenizer has tokens; the rest decode to nothing."""
        return self._tokenizer.convert_ids_to_tokens(int(token)) is not None

    def _decode(self, tokens: list[int]) -> str:
        text: str = self._tokenizer.decode(
            tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def _decode_one(self, token: int) -> str:
        """The text one more token makes known."""
        self._unsettled.append(int(token))
        text = self._decode(self._before + self._unsettled)
        if not text.endswith(_BAD):
            new = text[self._known :]
            self._settle()
            return new
        # The last character may be unfinished, and a byte-fallback tokenizer writes one _BAD for
        # each byte of it and of its neighbours, so no _BAD at the end is known yet.
        sure = text.rstrip(_BAD)
        if len(self._unsettled) > 2 * _LONGEST:
            # No character takes that long: there are bad bytes among them, or tokens that each
            # end inside a character. Only the last _BAD may still change.
            sure = text[:-1]
        new = sure[self._known :]
        self._known = max(self._known, len(sure))
        if len(self._unsettled) > 2 * _LONGEST:
            new += self._cut(text)
        return new

    def _settle(self) -> None:
        """Makes the unsettled tokens the context of the next ones."""
        self._before, self._unsettled = self._unsettled, []
        self._known = len(self._decode(self._before))

    def _cut(self, text: str) -> str:
        """Keeps the last tokens only, so that long runs of bad bytes stay cheap. UTF-8 is back in
        step within one character wherever one begins to read it."""
        self._unsettled = self._unsettled[-_LONGEST:]
        self._before = []
        short = self._decode(self._unsettled)
        self._known = len(short) - short.endswith(_BAD)
        return "" if short.endswith(_BAD) else text[-1]

    def _show(self, new: str) -> None:
        """Adds known text, up to a stop string or what may be the beginning of one."""
        text = self._held + new
        ends = [
            (start + len(stop), start) for stop in self._stop if (start := text.find(stop)) >= 0
        ]
        if ends:
            self._stopped = True
            shown, self._held = text[: min(ends)[1]], ""
        else:
            held = max((_overlap(text, stop) for stop in self._stop), default=0)
            shown, self._held = text[: len(text) - held], text[len(text) - held :]
        if shown:
            self._pieces.append(shown)


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of text that stop begins with."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
