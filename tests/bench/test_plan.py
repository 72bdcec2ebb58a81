"""The order of a run: every prompt in every cell once, slice by slice, cells taking turns."""

from __future__ import annotations

from collections import Counter

from multidraft.bench.config import make_config
from multidraft.bench.data import Example
from multidraft.bench.plan import blocks_of, cells_of, seed_of

VALUES = {
    "pairs": {"target": "big", "draft": "small"},
    "data": ["gsm8k", "humaneval"],
    "methods": ["ar", "token", "spectr"],
    "num_drafts": [2, 3],
    "repetitions": 2,
}
CONFIG = make_config(VALUES, "test")
(PAIR,) = CONFIG.pairs
CHOSEN = {
    "gsm8k": [Example(f"g{i}", "?", []) for i in range(3)],
    "humaneval": [Example("h0", "?", [])],
}


def test_everything_once():
    seen = Counter(
        (cell, example.id, block.repetition)
        for block in blocks_of(CONFIG, PAIR, CHOSEN)
        for cell in block.cells
        for example in block.examples
    )
    assert set(seen.values()) == {1}
    assert (
        len(seen) == (3 + 1) * 4 * 2
    )  # prompts × cells (ar, token, spectr K=2, K=3) × repetitions


def test_a_methods_own_length():
    methods = ["token@3", "token", "token@4", "ar"]
    config = make_config({**VALUES, "methods": methods, "temperature": [0, 1]}, "test")
    cells = [(c.method, c.draft_length, c.temperature) for c in cells_of(config, PAIR, "gsm8k")]
    assert cells == [
        ("token", 3, 0.0),
        ("token", 3, 1.0),
        ("token", 4, 0.0),  # the grid's, and once
        ("token", 4, 1.0),
        ("ar", 0, 0.0),
        ("ar", 0, 1.0),
    ]


def test_data_sets_take_turns_and_cells_rotate():
    blocks = list(blocks_of(CONFIG, PAIR, CHOSEN))
    assert [block.examples[0].id for block in blocks] == ["g0", "h0", "g1", "g2"] * 2
    assert [block.number for block in blocks] == list(range(8))
    first = [b.cells[0] for b in blocks if b.cells[0].dataset == "gsm8k"]
    assert first[:4] == cells_of(CONFIG, PAIR, "gsm8k")  # each cell has been first once


def test_several_batch_sizes():
    methods = ["ar", "token", "transformers:plain"]
    values = {**VALUES, "methods": methods, "batch": [1, 3], "repetitions": 1}
    config = make_config(values, "test")
    chosen = {"gsm8k": [Example(f"g{i}", "?", []) for i in range(5)]}
    blocks = list(blocks_of(config, config.pairs[0], chosen))
    sizes = [(len(b.examples), {c.batch for c in b.cells}) for b in blocks]
    assert sizes == [(1, {1})] * 3 + [(3, {3})] + [(1, {1})] * 2 + [(2, {3})]
    of_peers = {c.batch for b in blocks for c in b.cells if c.method == "transformers:plain"}
    assert of_peers == {1}
    assert [b.number for b in blocks] == list(range(len(blocks)))
    assert make_config(config.to_dict(), "again") == config
    assert make_config({**VALUES, "batch": 2}, "test").to_dict()["batch"] == 2


def test_batches_are_whole_where_no_size_divides_the_other():
    config = make_config({**VALUES, "batch": [4, 6], "repetitions": 1}, "test")
    chosen = {"gsm8k": [Example(f"g{i}", "?", []) for i in range(27)]}
    blocks = list(blocks_of(config, config.pairs[0], chosen))
    sizes = {4: [], 6: []}
    for block in blocks:
        sizes[block.cells[0].batch].append(len(block.examples))
    assert sizes == {4: [4, 4, 4, 4, 4, 4, 3], 6: [6, 6, 6, 6, 3]}


def test_a_slice_is_a_batch():
    config = make_config({**VALUES, "batch": 2}, "test")
    blocks = list(blocks_of(config, PAIR, CHOSEN))
    assert [len(block.examples) for block in blocks] == [2, 1, 1] * 2
    assert {cell.batch for block in blocks for cell in block.cells} == {2}


def test_seeds_differ_by_what_is_decoded_only():
    seeds = {
        seed_of(CONFIG, dataset, example.id, repetition)
        for dataset, examples in CHOSEN.items()
        for example in examples
        for repetition in (0, 1)
    }
    assert len(seeds) == 8 and max(seeds) < 2**32
    assert seed_of(CONFIG, "gsm8k", "g0", 0) in seeds
