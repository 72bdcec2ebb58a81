"""Time of one model step over 1 to 25 nodes with 200 cached tokens, side by side.

    python docs/benchmarks/model_step.py NAME [--dtype bfloat16] [--rounds 30]

Three ways of computing the same step, interleaved so that noise of the machine meets all alike:

- plain: transformers' own model, its dynamic cache and sdpa attention, one chain of nodes;
- packed: the same forward after the linear layers were packed;
- extend: `extend()` of a chain of nodes, and of a binary tree of as many;
- engine: a whole step of plain decoding, from the request's law to the text, for one node.

Prints the median, and from the fastest to the slowest tenth, in milliseconds; then the same for
`commit()` of a path of four nodes that has to be moved.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel

from multidraft import Engine, SamplingParams
from multidraft.models import PREFIX, Extension, TransformersModel, load_model
from multidraft.models.packed import pack_linears
from multidraft.models.store import resolve

CACHED = 200
NODES = (1, 2, 4, 6, 8, 16, 25)


def transformers_step(model: PreTrainedModel, nodes: int) -> Callable[[], float]:
    """A timed forward of ``nodes`` tokens after 200; cropping the cache is not timed."""
    cache = DynamicCache(config=model.config)
    model(torch.arange(CACHED)[None] + 100, cache=cache, logits_to_keep=1)
    tokens = torch.arange(nodes)[None] + 1000

    def step() -> float:
        start = time.perf_counter()
        model(tokens, cache=cache)
        seconds = time.perf_counter() - start
        cache.crop(-nodes)
        return seconds

    return step


def extend_step(model: TransformersModel, parents: list[int]) -> Callable[[], float]:
    slot = model.open()
    model.prefill(slot, range(100, 100 + CACHED))
    extension = Extension(slot, range(1000, 1000 + len(parents)), parents)

    def step() -> float:
        start = time.perf_counter()
        model.extend([extension])
        seconds = time.perf_counter() - start
        model.commit(slot, [])
        return seconds

    return step


def commit_step(model: TransformersModel) -> Callable[[], float]:
    slot = model.open()
    model.prefill(slot, range(100, 100 + CACHED))
    extension = Extension(slot, range(1000, 1008), [PREFIX, PREFIX, 1, 1, 3, 3, 5, 5], [])

    def step() -> float:
        model.extend([extension])
        start = time.perf_counter()
        model.commit(slot, [1, 3, 5, 7])
        seconds = time.perf_counter() - start
        model.truncate(slot, CACHED)
        return seconds

    return step


def engine_step(model: TransformersModel, rounds: int) -> Callable[[], float]:
    engine = Engine(model, None, "traversal")
    params = SamplingParams(max_tokens=rounds + 1, ignore_eos=True, seed=0)
    engine.submit(range(100, 100 + CACHED - rounds // 2), params)
    engine.step()

    def step() -> float:
        start = time.perf_counter()
        engine.step()
        return time.perf_counter() - start

    return step


def shown(seconds: list[float]) -> str:
    tenths = [1e3 * s for s in statistics.quantiles(seconds, n=10)]
    return f"{1e3 * statistics.median(seconds):.2f} ({tenths[0]:.2f}–{tenths[-1]:.2f})"


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()

    ours = load_model(args.name, dtype=args.dtype, device="cpu", slots=2 * len(NODES) + 2)
    folder = resolve(args.name)
    plain, packed = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=ours.dtype) for _ in range(2)
    )
    pack_linears(packed)
    ways: dict[str, dict[int, Callable[[], float]]] = {
        "plain": {n: transformers_step(plain, n) for n in NODES},
        "packed": {n: transformers_step(packed, n) for n in NODES},
        "extend, chain": {n: extend_step(ours, list(range(PREFIX, n - 1))) for n in NODES},
        "extend, tree": {n: extend_step(ours, [(i - 1) // 2 for i in range(n)]) for n in NODES},
    }
    steps = {(way, n): step for way, row in ways.items() for n, step in row.items()}
    ways["engine"] = {1: engine_step(ours, args.rounds)}
    steps["engine", 1] = ways["engine"][1]
    steps["commit", 4] = commit_step(ours)
    times: dict[tuple[str, int], list[float]] = {key: [] for key in steps}
    for _ in range(args.rounds):
        for key, step in steps.items():
            times[key].append(step())

    table = Table("ms", *(f"{n} nodes" for n in NODES), title=f"{args.name}, {ours.dtype}")
    for way in ways:
        table.add_row(way, *(shown(times[way, n]) if (way, n) in times else "" for n in NODES))
    console = Console(width=140)
    console.print(table)
    console.print(f"commit of 4 moved nodes: {shown(times['commit', 4])} ms")


if __name__ == "__main__":
    main()
