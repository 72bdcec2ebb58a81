"""The order of a run.

Prompts are taken a slice at a time, and each slice goes through all cells before the next one: a
machine that grows slower in the course of a run then does so for every method alike. Which cell
comes first changes from slice to slice, so none always follows the same pause.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from multidraft.bench.config import Config, Pair
from multidraft.bench.data import Example
from multidraft.bench.methods import parse_method
from multidraft.bench.records import Cell


@dataclass(frozen=True)
class Block:
    """One slice of prompts, to be decoded in each cell in turn.

    Attributes:
        number: counted from 0 within the pair, the same however often the run is resumed.
        repetition: 0, 1, …
        examples: as many as are decoded together.
        cells: of one data set, in this block's order.
    """

    number: int
    repetition: int
    examples: tuple[Example, ...]
    cells: tuple[Cell, ...]


def cells_of(config: Config, pair: Pair, dataset: str) -> list[Cell]:
    """The grid of one pair and data set: methods that do not have K or L run once whatever they
    are."""
    cells = [  # a method's together: there may not be memory for all peers at once
        Cell(pair.name, dataset, method.name, k, length, temperature, batch)
        for batch in config.batch
        for method in map(parse_method, config.methods)
        if batch == 1 or not method.peer
        for k, length in method.shapes(config.num_drafts, config.draft_length)
        for temperature in config.temperature
    ]
    return list(dict.fromkeys(cells))  # a method's own L may be one of the grid's


def blocks_of(
    config: Config, pair: Pair, chosen: Mapping[str, Sequence[Example]]
) -> Iterator[Block]:
    """All blocks of a pair, the data sets taking turns.

    Args:
        chosen: the prompts by data set, in the order they are taken.
    """
    grid = {dataset: cells_of(config, pair, dataset) for dataset in chosen}
    longest = max(map(len, chosen.values()))
    slice_size = math.lcm(*config.batch)  # whole batches of every size, but at the end of the data
    number = 0
    turn = 0
    for repetition in range(config.repetitions):
        for start in range(0, longest, slice_size):
            for dataset, examples in chosen.items():
                together = tuple(examples[start : start + slice_size])
                for batch in config.batch:
                    cells = [cell for cell in grid[dataset] if cell.batch == batch]
                    if not cells:
                        continue  # peers alone
                    first = turn % len(cells)
                    rotated = (*cells[first:], *cells[:first])
                    for i in range(0, len(together), batch):
                        yield Block(number, repetition, together[i : i + batch], rotated)
                        number += 1
            turn += 1


def seed_of(config: Config, dataset: str, example: str, repetition: int) -> int:
    """A request's seed, 32 bits: the same in every cell, whatever ran before."""
    named = f"{config.seed}/{repetition}/{dataset}/{example}"
    return int.from_bytes(hashlib.sha256(named.encode()).digest()[:4], "big")
