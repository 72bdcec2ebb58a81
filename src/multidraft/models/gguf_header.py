"""What a GGUF file says about itself, checked before anything is loaded from it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from gguf import GGUFReader

from multidraft.errors import ModelUnavailable, UnsupportedModel


class GgufHeader:
    """The metadata and tensor names of a GGUF file.

    Raises:
        ModelUnavailable: the file cannot be read.
        UnsupportedModel: it is no GGUF file, is damaged or cut short, is one piece of several, or
            scales its rotary positions, which the conversion would lose.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                magic = file.read(4)
        except OSError as error:
            raise ModelUnavailable(f"{path} cannot be read: {error.strerror}.") from error
        if magic != b"GGUF":
            raise UnsupportedModel(
                f"{path} is not a GGUF file; give a GGUF file or a model folder."
            )
        try:
            self._reader = GGUFReader(path)
        except (ValueError, IndexError, KeyError, OSError, struct.error) as error:
            raise UnsupportedModel(
                f"{path} is damaged or cut short, or of a GGUF version that cannot be read; "
                "fetch it again."
            ) from error
        self.architecture: str = self.get("general.architecture", "")
        self._refuse_what_would_be_lost()

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a metadata key, or ``default`` where the file lacks it."""
        field = self._reader.fields.get(key)
        return default if field is None else field.contents()

    @property
    def numbers(self) -> int:
        """How many numbers its tensors hold."""
        return sum(int(tensor.n_elements) for tensor in self._reader.tensors)

    @property
    def converted_bytes(self) -> int:
        """Size of the weights in bfloat16."""
        return 2 * self.numbers

    def _refuse_what_would_be_lost(self) -> None:
        if self.get("split.count", 0) > 1:
            raise UnsupportedModel(
                f"{self.path.name} is one piece of several; join them first with "
                "`llama-gguf-split --merge`."
            )
        scaling = self.get(f"{self.architecture}.rope.scaling.type", "none")
        factors = any(tensor.name.startswith("rope_f") for tensor in self._reader.tensors)
        if factors or scaling != "none":
            raise UnsupportedModel(
                f"{self.path.name} scales its rotary positions, which is lost when a GGUF file is "
                "converted; use the original model (its hub id or folder) instead."
            )
