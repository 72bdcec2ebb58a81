"""Text of the audit's own models: one visible character per token, and the prompts made of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from multidraft.errors import InvalidInput

#: Token i is the i-th character. None is a space, which tokenizers like to move or drop.
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEF"


def text_of(tokens: Sequence[int]) -> str:
    """The text of token ids, each in 0..31."""
    return "".join(ALPHABET[token] for token in tokens)


def tokens_of(text: str) -> tuple[int, ...]:
    """The token ids of a text.

    Raises:
        InvalidInput: a character that is no token.
    """
    for character in text:
        if character not in ALPHABET:
            raise InvalidInput(f"The text has {character!r}, which is no token of a test model.")
    return tuple(ALPHABET.index(character) for character in text)


def build_tokenizer(vocab_size: int) -> Any:
    """A transformers tokenizer of the first ``vocab_size`` characters, without special tokens."""
    words = {character: token for token, character in enumerate(ALPHABET[:vocab_size])}
    # Engines warm up with texts of their own, so an unknown character must not be an error here.
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=ALPHABET[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()  # no spaces in between
    wrapper: Any = PreTrainedTokenizerFast
    return wrapper(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)


def default_prompt(vocab_size: int, seed: int = 0, length: int = 6) -> tuple[int, ...]:
    """The first of `default_prompts`."""
    return default_prompts(vocab_size, 1, seed, length)[0]


def default_prompts(
    vocab_size: int, count: int, seed: int = 0, length: int = 6
) -> list[tuple[int, ...]]:
    """``count`` distinct prompts of ``length`` token ids.

    Each repeats a few distinct tokens, so that prompt lookup has something to find.

    Raises:
        InvalidInput: ``length`` below 1, or fewer such prompts than ``count``.
    """
    period = min(vocab_size, -(-length // 2))
    if length < 1 or not 0 <= count <= _permutations(vocab_size, period):
        raise InvalidInput(
            f"There are no {count} different prompts of {length} tokens over {vocab_size}."
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    prompts: dict[tuple[int, ...], None] = {}  # as an ordered set
    while len(prompts) < count:
        repeated = rng.permutation(vocab_size)[:period].tolist()
        prompts[tuple(itertools.islice(itertools.cycle(repeated), length))] = None
    return list(prompts)


def _permutations(size: int, taken: int) -> int:
    return int(np.prod([size - i for i in range(taken)], dtype=object))
