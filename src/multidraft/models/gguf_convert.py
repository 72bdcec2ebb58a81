"""Turn a GGUF file into a bfloat16 Hugging Face folder that loads on its own."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    GgufConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from multidraft.errors import UnsupportedModel
from multidraft.models.gguf_header import GgufHeader
from multidraft.models.gguf_tokenizer import end_tokens, gguf_tokenizer

#: Text on which tokenizers that cut, compose or begin differently disagree.
_PROBE = "Don't\n\n 1234 + 5²=  e\u0301 日本語12\n\tx<|im_start|>user"


def convert(header: GgufHeader, folder: Path) -> None:
    """Write the model, tokenizer and chat template of a GGUF file into the empty ``folder``.

    Raises:
        UnsupportedModel: the architecture, weights or tokenizer cannot be carried over exactly.
    """
    with _quiet():
        model = _load_model(header)
        tokenizer = gguf_tokenizer(header, model.config.max_position_embeddings)
        model.generation_config = _generation_config(header)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        _check_saved(tokenizer, folder, header)


def _load_model(header: GgufHeader) -> PreTrainedModel:
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            header.path.parent,
            gguf_file=header.path.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.bfloat16,
            output_loading_info=True,
        )
    except (ValueError, KeyError, NotImplementedError, RuntimeError, AttributeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UnsupportedModel(
            f"transformers cannot load {header.path.name} of architecture '{header.architecture}' "
            f"({reason}); use the original model (its hub id or folder) instead."
        ) from error
    model: PreTrainedModel
    model, loading = loaded
    if loading["missing_keys"]:
        raise UnsupportedModel(
            f"{header.path.name} lacks weights that its architecture '{header.architecture}' needs "
            f"({min(loading['missing_keys'])}); fetch another file of this model."
        )
    _refuse_what_was_lost(model, header)
    return model


def _refuse_what_was_lost(model: PreTrainedModel, header: GgufHeader) -> None:
    """transformers leaves out, without a word, the tensors and settings it has no place for."""
    numbers = sum(parameter.numel() for parameter in model.parameters())
    window = header.get(f"{header.architecture}.attention.sliding_window", 0)
    if header.numbers != numbers:
        lost = f"holds {header.numbers} numbers and transformers takes {numbers} of them"
    elif window and window != getattr(model.config, "sliding_window", None):
        lost = f"has a sliding window of {window} tokens that transformers does not take over"
    else:
        return
    raise UnsupportedModel(
        f"{header.path.name} of architecture '{header.architecture}' {lost}; use the original "
        "model (its hub id or folder) instead."
    )


def _generation_config(header: GgufHeader) -> GenerationConfig:
    ends = end_tokens(header)
    settings = {
        "bos_token_id": header.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": ends if len(ends) > 1 else next(iter(ends), None),
        "pad_token_id": header.get("tokenizer.ggml.padding_token_id"),
    }
    return GenerationConfig.from_dict(settings)


def _check_saved(tokenizer: PreTrainedTokenizerBase, folder: Path, header: GgufHeader) -> None:
    # AutoTokenizer may pick a class that rebuilds parts of the tokenizer in its own way.
    saved = AutoTokenizer.from_pretrained(folder)
    if saved(_PROBE)["input_ids"] != tokenizer(_PROBE)["input_ids"]:
        raise UnsupportedModel(
            f"The tokenizer of {header.path.name} changes when it is saved and loaded again; use "
            "the original model (its hub id or folder) instead."
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library's bars and remarks off the terminal, where our own bar is."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
