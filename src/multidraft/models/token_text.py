"""What the tokens of a tokenizer stand for, and which of them spell a given text.

A vocabulary writes its tokens in one of three ways: each byte as a letter of its own (GPT-2's
byte-level alphabet), a space as "▁" and single bytes as "<0x0A>" (sentencepiece), or as they are.
Which one it is shows in the tokenizer's decoder.
"""

from __future__ import annotations

import re
from typing import Any

from transformers.convert_slow_tokenizer import bytes_to_unicode

from multidraft.errors import InvalidInput

#: What a token stands for: text as bytes (perhaps part of a character), or a special token's name.
Meaning = bytes | str

_alphabet: Any = bytes_to_unicode  # has no types
_LETTER_OF: dict[int, str] = _alphabet()
_BYTE_OF = {letter: byte for byte, letter in _LETTER_OF.items()}
_SPACE = "▁"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


class TokenText:
    """The texts of a tokenizer's tokens.

    Args:
        tokenizer: a transformers tokenizer with a backend of the tokenizers library.

    Attributes:
        meanings: what each token stands for.

    Raises:
        InvalidInput: a tokenizer without that backend: the bytes of its tokens are not known.
    """

    def __init__(self, tokenizer: Any):
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise InvalidInput(
                f"The tokenizer ({type(tokenizer).__name__}) does not tell the bytes of its "
                "tokens; convert it to a fast tokenizer (tokenizer.json)."
            )
        self._model = backend.model
        decoder = "" if backend.decoder is None else backend.decoder.__getstate__().decode()
        self._byte_level = '"ByteLevel"' in decoder
        self._spaces_marked = _SPACE in decoder
        unknown = tokenizer.unk_token_id
        self._stand_in: int = 0 if unknown is None else unknown
        self._byte_tokens: set[int] = set()
        self.meanings: dict[int, Meaning] = {}
        added = tokenizer.added_tokens_decoder
        for name, token in tokenizer.get_vocab().items():
            byte = _BYTE_TOKEN.fullmatch(name) if '"ByteFallback"' in decoder else None
            if byte:
                self._byte_tokens.add(token)
                self.meanings[token] = bytes([int(byte[1], 16)])
            elif token not in added:
                self.meanings[token] = self._meaning(name)
            else:
                content = added[token].content
                self.meanings[token] = content if added[token].special else content.encode()

    def ids(self) -> dict[Meaning, int]:
        """One token for each meaning: of several an ordinary token before one for a single byte,
        and the lowest id among equals."""
        found: dict[Meaning, int] = {}
        for token in sorted(self.meanings, key=lambda token: (token in self._byte_tokens, token)):
            found.setdefault(self.meanings[token], token)
        return found

    def spell(self, meaning: Meaning) -> list[int]:
        """Tokens for a text in the middle of another: no space is added, and no special token. At
        least one: what the vocabulary cannot write becomes the unknown token, or token 0."""
        text = meaning.encode() if isinstance(meaning, str) else meaning
        return self._tokens(text) or [self._stand_in]

    def _meaning(self, name: str) -> Meaning:
        if self._byte_level and all(letter in _BYTE_OF for letter in name):
            return bytes(_BYTE_OF[letter] for letter in name)
        return (name.replace(_SPACE, " ") if self._spaces_marked else name).encode()

    def _tokens(self, text: bytes) -> list[int]:
        if self._byte_level:
            written = "".join(_LETTER_OF[byte] for byte in text)
        else:
            try:
                written = text.decode()
            except UnicodeDecodeError:  # part of a character
                found = (self._model.token_to_id(f"<0x{byte:02X}>") for byte in text)
                return [token for token in found if token is not None]
            if self._spaces_marked:
                written = written.replace(" ", _SPACE)
        # The model alone: normalisers change text, pre-tokenizers may put a space before it.
        try:
            return [token.id for token in self._model.tokenize(written)]
        except Exception:  # what the library raises where a word is unknown and has no stand-in
            return []
