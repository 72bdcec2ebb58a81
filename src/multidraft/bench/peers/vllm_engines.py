"""vLLM's engines: one process for each way of drafting, as vLLM fixes that at its start."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

from multidraft.bench.peers.installed import vllm_installed
from multidraft.errors import EngineError
from multidraft.hosted import VLLM_WORKER
from multidraft.hosted.messages import read_message
from multidraft.hosted.process import Lines, Process
from multidraft.models import TransformersModel

Key = tuple[str, int]  # mode and draft length

_WARM_UP_TOKENS = 8
_POLL = 0.1  # seconds between two looks whether to stop
_GIB = 2**30
_SPARE_POSITIONS = 512
# What a process takes: packed weights beside those that stay as they are, and vLLM itself.
_PER_WEIGHT, _BESIDES = 1.6, 0.8 * _GIB
#: The worker's names of our modes.
_MODES = {"plain": "plain", "draft": "draft_model-greedy", "ngram": "ngram"}


class VllmEngines:
    """Starts each engine when it is first asked, and keeps it while there is memory for the others.

    Where there is not, the one last used goes: engines take turns in a fixed order, so it is the
    one not needed for longest. Starting again takes no part in any measured time.

    Args:
        target: this engine's target, whose dtype and context the engines have too.
        target_folder, draft_folder: where the models are.
        python: of the environment that has vLLM.
    """

    def __init__(
        self,
        target: TransformersModel,
        target_folder: Path,
        draft_folder: Path | None,
        python: str,
    ):
        self._target = target
        self._target_folder = target_folder
        self._draft_folder = draft_folder
        self._python = python
        self._engines: dict[Key, _Engine] = {}  # the last used last

    def ask(
        self, key: Key, request: Mapping[str, Any], interrupted: Callable[[], bool]
    ) -> dict[str, Any] | None:
        """The worker's answer to a request; None if interrupted, whereupon that engine is ended.

        Raises:
            EngineError: it cannot be had, or failed for good.
        """
        try:
            answer = self._ask(key, request, interrupted)
        except EngineError as error:
            mode, length = key
            name = f"vllm:{mode}, L {length}" if length else f"vllm:{mode}"
            raise EngineError(f"{name}: {error}") from error
        if answer is None:
            self._engines.pop(key).close()
        return answer

    def close(self) -> None:
        """End all."""
        while self._engines:
            self._engines.popitem()[1].close()

    def _ask(
        self, key: Key, request: Mapping[str, Any], interrupted: Callable[[], bool]
    ) -> dict[str, Any] | None:
        if key in self._engines:
            engine = self._engines[key] = self._engines.pop(key)
            return engine.ask(request, interrupted)
        self._make_room(key[0])
        engine = self._engines[key] = _Engine(*self._command(*key))
        ready = engine.receive(interrupted)
        if ready is None:
            return None
        device = self._target.device.type
        if ready["device"] != device:
            raise EngineError(
                f"It runs on {ready['device']} and the models are on {device}; give --vllm-python "
                "an environment whose vLLM does, too."
            )
        # The first tokens of a process pay for memory and kernels.
        short = {"max_tokens": min(_WARM_UP_TOKENS, request["max_tokens"])}
        if engine.ask({**request, **short}, interrupted) is None:
            return None
        return engine.ask(request, interrupted)

    def _make_room(self, mode: str) -> None:
        needed = self._memory(mode)
        while (free := psutil.virtual_memory().available) < needed:
            if not self._engines:
                raise EngineError(
                    f"It takes about {needed / _GIB:.1f} GiB of memory and {free / _GIB:.1f} GiB "
                    "are free; run it with fewer other engines beside it."
                )
            self._engines.popitem()[1].close()

    def _folders(self, mode: str) -> list[Path]:
        draft = self._draft_folder
        return [self._target_folder, draft] if mode == "draft" and draft else [self._target_folder]

    def _memory(self, mode: str) -> float:
        folders = self._folders(mode)
        weights = sum(
            file.stat().st_size for folder in folders for file in folder.glob("*.safetensors")
        )
        return _PER_WEIGHT * weights + _BESIDES

    def _cache_bytes(self, folders: Sequence[Path]) -> int:
        """For one sequence, and for blocks that are not full."""
        positions = self._target.max_length + _SPARE_POSITIONS
        element = self._target.dtype.itemsize
        return sum(2 * positions * element * _cached_width(folder) for folder in folders)

    def _command(self, mode: str, length: int) -> tuple[Sequence[str], Mapping[str, str]]:
        options = {
            "target": str(self._target_folder),
            "draft": str(self._draft_folder),
            "mode": _MODES[mode],
            "draft_length": length,
            "dtype": str(self._target.dtype).removeprefix("torch."),
            "context": self._target.max_length,
            "cache_bytes": self._cache_bytes(self._folders(mode)),
            "batch": 1,
            "seed": 0,
            "timed": True,
        }
        environment = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
        if openmp := vllm_installed(self._python).openmp:
            # As vLLM's manual says; idle threads do not wait at work.
            environment |= {"LD_PRELOAD": openmp, "KMP_BLOCKTIME": "5"}
        return [self._python, str(VLLM_WORKER), json.dumps(options)], environment


def _cached_width(folder: Path) -> int:
    """Elements of a key in all layers together."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    heads = config["num_attention_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    return int(config["num_hidden_layers"] * (config.get("num_key_value_heads") or heads) * size)


class _Engine:
    """One process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]):
        self._lines: Lines = queue.SimpleQueue()
        self._process = Process(command, environment, self._lines)
        self._process.outstanding.add(0)  # the line that says that it is ready

    def ask(
        self, request: Mapping[str, Any], interrupted: Callable[[], bool]
    ) -> dict[str, Any] | None:
        self._process.outstanding.add(0)
        self._process.write(json.dumps(request) + "\n")
        return self.receive(interrupted)

    def receive(self, interrupted: Callable[[], bool]) -> dict[str, Any] | None:
        """The next message; None if interrupted."""
        while not interrupted():
            try:
                _, line = self._lines.get(timeout=_POLL)
            except queue.Empty:
                continue
            if line is None:
                raise self._process.ended()
            self._process.outstanding.clear()
            return read_message(line)
        return None

    def close(self) -> None:
        """End it, by force where it is at work."""
        self._process.close()
