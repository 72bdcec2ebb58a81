"""From a model's name to a TransformersModel: folder, configuration, weights, tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.utils import logging as transformers_logging

from multidraft.errors import InvalidInput, ModelUnavailable, refuse_out_of_memory
from multidraft.models import selfcheck
from multidraft.models.head_list import HeadTokens, resolve_head_tokens
from multidraft.models.packed import can_pack
from multidraft.models.store import resolve
from multidraft.models.transformers_model import TransformersModel, resolve_max_length

_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def load_model(
    name: str | Path,
    dtype: str | torch.dtype = "auto",
    device: str | torch.device | None = None,
    max_length: int | None = None,
    slots: int = 8,
    revision: str | None = None,
    head_tokens: HeadTokens | None = None,
    four_bit: bool = False,
) -> TransformersModel:
    """Load a causal language model for tree scoring.

    Args:
        name: a model known by name, a Hugging Face repository, or a local folder or file.
        dtype: ``float32``, ``bfloat16``, ``float16``, the torch dtype, or ``auto``: bfloat16 where
            that is the faster one on the device, else float32 (see docs/models.md).
        device: any torch device; a CUDA GPU if there is one, else the CPU, when None.
        max_length: the most positions of one sequence; the model's context, but at most 4096, when
            None.
        slots: sequences held at once.
        revision: branch, tag or commit of a repository.
        head_tokens: for a draft, the only tokens that it computes logits of (see
            docs/choosing-drafts.md): how many of the list that ships for its vocabulary, a list
            file that `multidraft head` wrote (``FILE@N``: its first N), or token ids.
        four_bit: for a draft: its weights in four bits (see `TransformersModel`).

    Raises:
        ModelUnavailable: the model cannot be had, its folder is broken, or memory is too small.
        UnsupportedModel: the model is of a kind that cannot run exactly.
        InvalidInput: an argument is out of range.
    """
    where = resolve_device(device)
    kind = resolve_dtype(dtype, where)
    folder = resolve(str(name), revision=revision)
    config, model_class = _load_config(folder)
    selfcheck.refuse_unsupported(config, model_class)
    resolve_max_length(max_length, config)  # before the weights, which can take a minute
    tokenizer = _load_tokenizer(folder)
    head = None if head_tokens is None else resolve_head_tokens(head_tokens, tokenizer)
    model = _load_weights(folder, config, kind, where)
    try:
        loaded = TransformersModel(
            model,
            tokenizer=tokenizer,
            eos_token_ids=_eos_token_ids(model, tokenizer),
            max_length=max_length,
            slots=slots,
            head_tokens=head,
            four_bit=four_bit,
        )
        _leave_file(model)
    except Exception as error:
        refuse_out_of_memory(error)
        raise
    return loaded


def load_tokenizer(name: str | Path, revision: str | None = None) -> Any:
    """A model's transformers tokenizer, without its weights.

    Raises:
        ModelUnavailable: the model cannot be had, or its folder is broken.
        InvalidInput: it has no tokenizer.
    """
    tokenizer = _load_tokenizer(resolve(str(name), revision=revision))
    if tokenizer is None:
        raise InvalidInput(f"The model {name} has no tokenizer.")
    return tokenizer


def resolve_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """The torch dtype for a name; raises InvalidInput for an unknown one."""
    if dtype == "auto":
        return torch.bfloat16 if _has_fast_bfloat16(device) else torch.float32
    for name, known in _DTYPES.items():
        if dtype in (name, known):
            return known
    names = ", ".join(_DTYPES)
    if dtype == "int4":
        raise InvalidInput(f"int4 is for drafts alone; choose auto or {names} here.")
    raise InvalidInput(f"Unknown dtype {dtype!r}; choose auto, {names}, or, for drafts, int4.")


def _has_fast_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return device.type == "xpu"
    # oneDNN also emulates bfloat16 with AVX-512, slower than float32: ask for the instructions.
    if torch.cpu._is_avx512_supported():
        return torch.cpu._is_avx512_bf16_supported()
    return can_pack(torch.bfloat16, device)


def resolve_device(device: str | torch.device | None) -> torch.device:
    """The torch device for a name, a CUDA GPU where there is one for None.

    Raises:
        InvalidInput: it is not available.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise InvalidInput(f"Device {device} is not available to PyTorch here.") from None
    return resolved


def _load_config(folder: Path) -> tuple[PreTrainedConfig, type[PreTrainedModel]]:
    with _explained(folder, "its config.json cannot be used"):
        config: PreTrainedConfig = AutoConfig.from_pretrained(folder)
        return config, cast(type[PreTrainedModel], MODEL_FOR_CAUSAL_LM_MAPPING[type(config)])


def _load_weights(
    folder: Path, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device
) -> PreTrainedModel:
    with _explained(folder, "its weights cannot be loaded"), quiet():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=dtype, output_loading_info=True
        )
    model: PreTrainedModel = loaded[0]
    info: dict[str, Any] = loaded[1]
    if info["missing_keys"] or info["mismatched_keys"]:
        key = sorted(map(str, info["missing_keys"] or info["mismatched_keys"]))[0]
        raise ModelUnavailable(
            f"The weights in {folder} are incomplete: {key} is missing or wrong."
        )
    with _explained(folder, f"its weights cannot be put on {device}"):
        return cast(PreTrainedModel, cast(nn.Module, model).to(device))


def _leave_file(model: nn.Module) -> None:
    """Copy into memory what still lies in the mapped file of weights: one tensor there keeps the
    whole file mapped, and a system short of memory reads it from disk again and again."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


def _load_tokenizer(folder: Path) -> Any:
    names = ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json")
    if not any((folder / name).is_file() for name in names):
        return None
    with _explained(folder, "its tokenizer cannot be loaded"):
        return AutoTokenizer.from_pretrained(folder)


def _eos_token_ids(model: PreTrainedModel, tokenizer: Any) -> set[int]:
    """All end tokens that any of the model's files names: chat models often list several."""
    ids: set[int] = set()
    for source in (model.generation_config, model.config, tokenizer):
        found = getattr(source, "eos_token_id", None)
        ids.update(found if isinstance(found, (list, tuple)) else () if found is None else (found,))
    return ids


@contextmanager
def _explained(folder: Path, problem: str) -> Iterator[None]:
    """Turn what transformers raises for a broken folder into one sentence."""
    try:
        yield
    except Exception as error:  # transformers and safetensors raise many kinds here
        refuse_out_of_memory(error)
        detail = str(error).strip().splitlines()
        raise ModelUnavailable(
            f"The model in {folder} is not usable: {problem}"
            f" ({detail[0].rstrip('.') if detail else type(error).__name__})."
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' loading reports: what matters of them is raised as an error."""
    logging: Any = transformers_logging
    verbosity, progress = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if progress:
            logging.enable_progress_bar()
