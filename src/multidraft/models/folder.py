"""Is this folder a model that can be loaded?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from multidraft.errors import ModelUnavailable, UnsupportedModel

_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def check_folder(folder: Path) -> Path:
    """Return ``folder`` if it holds a complete causal language model.

    Raises:
        ModelUnavailable: the configuration or a weight file is missing or broken.
        UnsupportedModel: transformers knows no causal language model of its architecture.
    """
    config = _read_json(folder / "config.json")
    _check_architecture(folder, str(config.get("model_type")))
    for name in _missing_weights(folder):
        raise ModelUnavailable(
            f"The model folder {folder} lacks {name}; copy or download the whole folder again."
        )
    return folder


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelUnavailable(
            f"The folder {path.parent} has no {path.name}, so it is not a Hugging Face model; give "
            "a model folder or a .gguf file."
        ) from error
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{path} cannot be read ({error}); fetch it again.") from error
    if not isinstance(content, dict):
        raise ModelUnavailable(f"{path} is not a JSON object; fetch it again.")
    return content


def _check_architecture(folder: Path, model_type: str) -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise UnsupportedModel(
            f"The model in {folder} has architecture '{model_type}', which is no causal language "
            "model that transformers knows; use another model, or a newer transformers."
        )


def _missing_weights(folder: Path) -> list[str]:
    for name in _INDEXES:
        if (folder / name).exists():
            shards = set(_read_json(folder / name).get("weight_map", {}).values())
            return sorted(shard for shard in shards if not (folder / shard).is_file())
    if any((folder / name).is_file() for name in _WEIGHTS):
        return []
    return [_WEIGHTS[0]]
