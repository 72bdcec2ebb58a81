"""A run from its configuration to its last record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

import psutil
import torch

from multidraft.bench.config import Config, Pair
from multidraft.bench.data import Example, choose, load_examples
from multidraft.bench.folder import RunFolder, open_folder
from multidraft.bench.manifest import make_manifest
from multidraft.bench.methods import parse_method
from multidraft.bench.ours import EngineContestant, warm_up
from multidraft.bench.outcome import Contestant, Outcome
from multidraft.bench.pair import load_pair
from multidraft.bench.peers import Peers
from multidraft.bench.plan import Block, blocks_of, cells_of, seed_of
from multidraft.bench.prompts import uses_chat
from multidraft.bench.records import Cell, Record
from multidraft.engine import Decoder
from multidraft.errors import InvalidInput
from multidraft.models.store import resolve
from multidraft.sampling import SamplingParams


class Listener(Protocol):
    """Told how a run goes on."""

    def busy_with(self, what: str) -> None:
        """Something is done before or between the generations."""
        ...

    def planned(self, total: int, done: int) -> None:
        """Records of the whole run, and those that are there already."""
        ...

    def recorded(self, records: Sequence[Record]) -> None:
        """Records were written."""
        ...


def run(config: Config, path: Path, listener: Listener, interrupted: Callable[[], bool]) -> bool:
    """Carry out a run, or what is left of it, in the folder ``path``.

    Args:
        config: what to run.
        path: see `open_folder`.
        listener: told of progress.
        interrupted: asked after each round; once it says True the run stops, and what was being
            generated is left for the next time.

    Returns:
        True when everything is recorded, False when interrupted.

    Raises:
        InvalidInput: a data set or folder that cannot be used, or a pair that does not fit.
        DataUnavailable, ModelUnavailable, UnsupportedModel: as the loading of each.
    """
    chosen = {}
    for dataset in config.data:
        listener.busy_with(f"Reading {dataset}")
        data_dir = None if config.data_dir is None else Path(config.data_dir)
        chosen[dataset] = choose(load_examples(dataset, data_dir), config.prompts, config.seed)
    folders: dict[str, Path] = {}
    for pair in config.pairs:
        for name in pair.models:
            folders[name] = resolve(name)
    listener.busy_with("Computing the models' checksums")
    manifest = make_manifest(config, folders, chosen)
    with open_folder(path, manifest) as folder:
        plans = {pair: list(blocks_of(config, pair, chosen)) for pair in config.pairs}
        total = sum(len(b.cells) * len(b.examples) for blocks in plans.values() for b in blocks)
        listener.planned(total, len(folder.done))
        for pair, blocks in plans.items():
            if not any(_missing(block, cell, folder) for block in blocks for cell in block.cells):
                continue
            listener.busy_with(f"Loading {pair.name}")
            with closing(_Contest(config, pair, folders, chosen)) as contest:
                for block in blocks:
                    for cell in block.cells:
                        stop = interrupted()
                        if stop or not contest.run(block, cell, folder, listener, interrupted):
                            return False
            del contest  # before the next pair's models come
    return True


def _missing(block: Block, cell: Cell, folder: RunFolder) -> list[Example]:
    return [e for e in block.examples if (cell, e.id, block.repetition) not in folder.done]


class _Contest:
    """One pair, loaded: decodes slices of prompts in its cells."""

    def __init__(
        self,
        config: Config,
        pair: Pair,
        folders: Mapping[str, Path],
        chosen: Mapping[str, Sequence[Example]],
    ):
        self._config = config
        self._target, self._draft = load_pair(config, pair, max(config.batch))
        draft_folder = folders.get(pair.draft) if pair.draft else None
        self._peers = Peers(self._target, folders[pair.target], draft_folder, config.vllm_python)
        self._encoder = Decoder(self._target)
        self._chat = {name: uses_chat(config, name, self._target.tokenizer) for name in chosen}
        self._contestants: dict[tuple[str, int, int, int], Contestant] = {}
        self._warm: set[Cell] = set()
        for dataset in chosen:
            for cell in cells_of(config, pair, dataset):  # what does not fit shows at once
                self._contestant(cell)

    def close(self) -> None:
        """End the peers' processes."""
        self._peers.close()

    def _contestant(self, cell: Cell) -> Contestant:
        key = (cell.method, cell.num_drafts, cell.draft_length, cell.batch)
        if key not in self._contestants:
            method = parse_method(cell.method)
            if method.peer:
                made: Contestant = self._peers.contestant(method, cell.draft_length)
            else:
                made = EngineContestant(
                    method, self._target, self._draft, cell.num_drafts, cell.draft_length
                )
            self._contestants[key] = made
        return self._contestants[key]

    def run(
        self,
        block: Block,
        cell: Cell,
        folder: RunFolder,
        listener: Listener,
        interrupted: Callable[[], bool],
    ) -> bool:
        """Decode a block in a cell where something of it is missing; False if interrupted.

        All of it, as fewer prompts together would take another time; what is there already is not
        recorded again.
        """
        missing = {example.id for example in _missing(block, cell, folder)}
        records, prompts = [], []
        for example in block.examples if missing else ():
            seed = seed_of(self._config, cell.dataset, example.id, block.repetition)
            record = Record(cell, example.id, block.repetition, seed, block=block.number)
            try:
                tokens = self._encoder.encode(
                    example.messages if self._chat[cell.dataset] else example.prompt
                )
            except InvalidInput as error:
                if example.id in missing:
                    failed = [replace(record, error=str(error))]
                    folder.append(failed)
                    listener.recorded(failed)
                continue
            records.append(replace(record, prompt_tokens=len(tokens)))
            prompts.append(tokens)
        if not any(record.example in missing for record in records):
            return True
        params = [
            SamplingParams(
                temperature=cell.temperature, max_tokens=self._config.max_tokens, seed=record.seed
            )
            for record in records
        ]
        contestant = self._contestant(cell)
        self._warm_up(contestant, cell, prompts, params, interrupted)
        forget_peak_memory(self._target.device)
        outcomes = contestant.decode(prompts, params, interrupted)
        if outcomes is None:
            return False
        memory = peak_memory(self._target.device)
        finished = [
            _filled(record, outcome, memory)
            for record, outcome in zip(records, outcomes, strict=True)
            if record.example in missing
        ]
        folder.append(finished)
        listener.recorded(finished)
        return True

    def _warm_up(
        self,
        contestant: Contestant,
        cell: Cell,
        prompts: Sequence[list[int]],
        params: Sequence[SamplingParams],
        interrupted: Callable[[], bool],
    ) -> None:
        if cell in self._warm:
            return
        outcomes = warm_up(contestant, prompts, params, interrupted)
        if outcomes is not None and not any(outcome.error for outcome in outcomes):
            self._warm.add(cell)


def _filled(record: Record, outcome: Outcome, memory: int) -> Record:
    values: dict[str, Any] = asdict(outcome)
    values["peak_memory"] = outcome.peak_memory or memory
    return replace(record, **values)


def forget_peak_memory(device: torch.device) -> None:
    """Count a GPU's memory from now on. A process's resident size has no such start."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory(device: torch.device) -> int:
    """Largest memory in use, in bytes: the GPU's since `forget_peak_memory` where the model is on
    one, else the process's resident size up to now."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource  # Windows has none

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest
