"""The pair's models once more, as transformers has them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoModelForCausalLM

from multidraft.errors import ModelUnavailable
from multidraft.models import TransformersModel
from multidraft.models.load import quiet

_GenerationConfig: Any = transformers.GenerationConfig  # without types
_loader: Any = AutoModelForCausalLM


class PeerModels:
    """Loaded when first asked for, and shared by the peers that run in this process.

    This engine changes the attention and the linear layers of its own, so it cannot share.

    Args:
        target: the engine's target, whose dtype, device, end tokens and context count here too.
        target_folder, draft_folder: where the models are.
    """

    def __init__(self, target: TransformersModel, target_folder: Path, draft_folder: Path | None):
        self.reference = target
        self._target_folder = target_folder
        self._draft_folder = draft_folder

    @cached_property
    def target(self) -> Any:
        return self._load(self._target_folder)

    @cached_property
    def draft(self) -> Any:
        assert self._draft_folder is not None
        return self._load(self._draft_folder)

    def _load(self, folder: Path) -> Any:
        try:
            with quiet():
                model = _loader.from_pretrained(folder, dtype=self.reference.dtype)
        except (OSError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ModelUnavailable(f"transformers cannot load {folder} ({reason}).") from error
        model = model.to(self.reference.device).eval()
        if self.reference.device.type == "cpu":
            # They lie in the mapped file, whose pages the system takes away where memory runs
            # short, or while other methods run: each token would read them from the disk again.
            for weight in model.parameters():
                weight.data = weight.data.clone()
        # Else `generate` fills in what the model's own file says, such as a repetition penalty.
        model.generation_config = _GenerationConfig()
        return model
