"""The tokenizer of a GGUF file, made to agree with the published one.

A GGUF file stores the vocabulary and merges of a byte-level tokenizer, but only the *name* of how
text is cut before merging. transformers knows some names and takes GPT-2's cut for the others;
normalization, whole-word look-up and the default beginning token are never in the file either.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from multidraft.errors import UnsupportedModel
from multidraft.models.gguf_header import GgufHeader


@dataclass(frozen=True)
class _Published:
    """What the published tokenizer does that transformers does not rebuild from the file."""

    digits: bool = False  # every digit is cut off on its own, before GPT-2's cut
    composed: bool = False  # text is brought to Unicode's composed form (NFC)
    whole_words: bool = False  # a piece that is in the vocabulary is taken without merging
    begins: bool = False  # a beginning token is added unless the file says otherwise


_PUBLISHED = {
    "gpt-2": _Published(),
    "phi-2": _Published(),
    "gpt-4o": _Published(),
    "deepseek-r1-qwen": _Published(),
    "mpt": _Published(composed=True),
    "olmo": _Published(composed=True),
    "qwen2": _Published(composed=True),
    "qwen35": _Published(composed=True),
    "smollm": _Published(digits=True),
    "starcoder": _Published(digits=True),
    "llama-bpe": _Published(whole_words=True, begins=True),
    "tekken": _Published(whole_words=True, begins=True),
}

_CONTROL = 3  # GGUF's mark of a token that is never written as text


def gguf_tokenizer(header: GgufHeader, context: int) -> PreTrainedTokenizerBase:
    """The tokenizer of a GGUF file, for a model of ``context`` positions.

    Raises:
        UnsupportedModel: the way it cuts text is not known here, so that its tokens would differ
            from those the model was trained on.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(header.path.parent, gguf_file=header.path.name)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UnsupportedModel(
            f"The tokenizer in {header.path.name} cannot be rebuilt ({error}); use the original "
            "model (its hub id or folder) instead."
        ) from error
    if header.get("tokenizer.ggml.model") == "gpt2":
        _complete(tokenizer, header)
    tokenizer.model_max_length = context
    return tokenizer


def _complete(tokenizer: PreTrainedTokenizerBase, header: GgufHeader) -> None:
    cut = header.get("tokenizer.ggml.pre")
    published = _PUBLISHED.get(cut)
    if published is None:
        raise UnsupportedModel(
            f"{header.path.name} cuts text in a way that is not known here ({cut}); use the "
            "original model (its hub id or folder) instead."
        )
    backend = tokenizer.backend_tokenizer
    if published.digits:
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
    if published.composed:
        backend.normalizer = normalizers.NFC()
    if published.whole_words:
        backend.model.ignore_merges = True
    if published.begins and header.get("tokenizer.ggml.add_bos_token") is None:
        tokenizer.add_bos_token = True


def end_tokens(header: GgufHeader) -> list[int]:
    """The tokens at which text ends: end of text, of turn, of message, and a control token for
    padding (Qwen ends at both ``<|im_end|>`` and its padding token ``<|endoftext|>``).
    """
    names = ("eos", "eot", "eom")
    ends = [header.get(f"tokenizer.ggml.{name}_token_id") for name in names]
    padding = header.get("tokenizer.ggml.padding_token_id")
    kinds = header.get("tokenizer.ggml.token_type") or []
    if padding is not None and padding < len(kinds) and kinds[padding] == _CONTROL:
        ends.append(padding)
    return list(dict.fromkeys(token for token in ends if token is not None))
