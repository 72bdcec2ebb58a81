"""Other engines on the same models, prompts and sampling parameters."""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from multidraft.bench.methods import Method
from multidraft.bench.outcome import Contestant
from multidraft.bench.peers.generate import TransformersContestant
from multidraft.bench.peers.models import PeerModels
from multidraft.bench.peers.vllm import VllmContestant
from multidraft.bench.peers.vllm_engines import VllmEngines
from multidraft.models import TransformersModel

if TYPE_CHECKING:
    from multidraft.bench.peers.flashspec import FlashspecModels


class Peers:
    """The peers of one pair. What they hold is given back by `close`.

    Args:
        target: this engine's target, whose dtype, device, end tokens and context count here too.
        target_folder, draft_folder: where the models are.
        vllm_python: the Python of the environment that has vLLM; this one when None.
    """

    def __init__(
        self,
        target: TransformersModel,
        target_folder: Path,
        draft_folder: Path | None,
        vllm_python: str | None,
    ):
        self._models = PeerModels(target, target_folder, draft_folder)
        python = vllm_python or sys.executable
        self._vllm = VllmEngines(target, target_folder, draft_folder, python)

    def contestant(self, method: Method, draft_length: int) -> Contestant:
        """A peer's method, with models loaded where they live in this process.

        Raises:
            ModelUnavailable: transformers cannot load a model.
            InvalidInput: vLLM, and the models are on a GPU.
        """
        if method.peer == "vllm":
            return VllmContestant(self._models.reference, self._vllm, method.mode, draft_length)
        if method.peer == "flashspec":
            from multidraft.bench.peers.flashspec import FlashspecContestant

            return FlashspecContestant(method.mode, self._flashspec, draft_length)
        return TransformersContestant(method.mode, self._models, draft_length)

    @cached_property
    def _flashspec(self) -> FlashspecModels:
        from multidraft.bench.peers.flashspec import FlashspecModels  # only where it is installed

        return FlashspecModels(self._models)

    def close(self) -> None:
        """End the processes."""
        self._vllm.close()
