"""A draft's step time, reach and block efficiency by the size of its head.

    python docs/benchmarks/reduced_head.py --data-dir DATA --out reduced_head.jsonl

Uses the list that ships for the pair's vocabulary, or --list. Three parts:

- steps: a draft call of 4 rows for every size in turn, and a target call of 13 rows, so that noise
  of the machine meets all alike; median, and from the fastest to the slowest tenth;
- reach: texts sampled from the target, every token of which both models score: how many are on the
  list, and Σ min(p, q), the chance that one draft token is accepted, of the reduced draft's q;
- rounds: block efficiency of spectr-gbv with K drafts of L tokens, and of hybrid trees of as many
  nodes with traversal.

What is finished is appended to --out, so an interrupted run goes on where it stopped, as does one
that --minutes ended. `--report` only prints the tables of what is there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import torch
from block_efficiency import ratio_of_sums
from transformers import AutoModelForCausalLM

from multidraft import Decoder, SamplingParams, load_model
from multidraft.bench.data import choose, load_examples
from multidraft.draft import HybridTreeDrafter, ModelDrafter
from multidraft.models import PREFIX, Extension, TransformersModel
from multidraft.models.head import ReducedHead
from multidraft.models.head_list import resolve_head_tokens
from multidraft.models.store import resolve
from multidraft.sampling import Warper

METHODS: dict[str, Callable] = {
    "spectr-gbv": lambda draft, k, length: ModelDrafter(draft, k, length),
    "traversal": lambda draft, k, length: HybridTreeDrafter(draft, length, k * length),
}
ROUNDS = 30


class Heads:
    """One draft whose head is exchanged; size 0 is the whole head."""

    def __init__(self, name: str, draft: TransformersModel, ids: list[int], sizes: list[int]):
        self.draft = draft
        self._whole = draft._model.get_output_embeddings()
        raw = AutoModelForCausalLM.from_pretrained(resolve(name), dtype=draft.dtype)
        self._heads = {
            n: ReducedHead(raw, ids[:n], draft.eos_token_ids, draft.vocab_size) for n in sizes
        }

    def put(self, size: int) -> TransformersModel:
        self.draft.head = self._heads.get(size)
        if self.draft.head is None:
            self.draft._model.set_output_embeddings(self._whole)
        else:
            self.draft.head.install(self.draft._model)
        return self.draft

    def tokens(self, size: int) -> torch.Tensor:
        return self._heads[size].tokens if size else torch.arange(self.draft.vocab_size)


def steps(target: TransformersModel, heads: Heads, sizes: list[int]) -> Iterator[dict]:
    draft_call, target_call = call_of(heads.draft, 4), call_of(target, 13)
    for _ in range(ROUNDS):
        for size in [*sizes, 0]:
            heads.put(size)
            yield {"size": size, "ms": draft_call()}
        yield {"size": "target", "ms": target_call()}


def call_of(model: TransformersModel, rows: int) -> Callable[[], float]:
    """A timed call of ``rows`` nodes after 200 tokens, the first after a head was put being
    left out; the slot stays taken."""
    slot = model.open()
    model.prefill(slot, range(100, 300))
    extension = Extension(slot, range(1000, 1000 + rows), [PREFIX] * rows)

    def call() -> float:
        model.extend([extension])
        model.commit(slot, [])
        start = time.perf_counter()
        model.extend([extension])
        seconds = time.perf_counter() - start
        model.commit(slot, [])
        return 1e3 * seconds

    return call


def reach(
    target: TransformersModel, heads: Heads, sizes: list[int], prompts: list, params: SamplingParams
) -> Iterator[dict]:
    results = Decoder(target).generate(prompts, params)
    covered: dict[int, int] = dict.fromkeys([*sizes, 0], 0)
    overlap: dict[int, float] = dict.fromkeys([*sizes, 0], 0.0)
    total = 0
    for prompt, result in zip(prompts, results, strict=True):
        tokens, out = Decoder(target).encode(prompt), result.token_ids
        warper = Warper(SamplingParams(temperature=params.temperature), [], target.vocab_size)
        p, q = (
            warper.laws(score(m, tokens, out)[:, : target.vocab_size])
            for m in (target, heads.put(0))
        )
        total += len(out)
        for size in covered:
            listed = heads.tokens(size)
            covered[size] += int(torch.isin(torch.tensor(out), listed).sum())
            kept = q[:, listed] / q[:, listed].sum(-1, keepdim=True)
            overlap[size] += float(torch.minimum(kept, p[:, listed]).sum())
    yield {"tokens": total, "covered": covered, "overlap": overlap}


def score(model: TransformersModel, prompt: list[int], out: list[int]) -> torch.Tensor:
    """``[len(out), V]``: the logits that each token of ``out`` was drawn from."""
    slot = model.open()
    model.prefill(slot, prompt[:-1])
    chain = [prompt[-1], *out[:-1]]
    (logits,) = model.extend([Extension(slot, chain, list(range(PREFIX, len(chain) - 1)))])
    model.close(slot)
    return logits


def run(args: argparse.Namespace) -> None:
    target = load_model(args.target, max_length=1024, slots=args.prompts + 1)
    draft = load_model(args.draft, max_length=1024, slots=args.prompts + 1)
    choice = args.list or str(max(args.sizes))
    ids = list(resolve_head_tokens(choice, draft.tokenizer))
    heads = Heads(args.draft, draft, ids, args.sizes)
    params = SamplingParams(temperature=args.temperature, max_tokens=args.max_tokens, seed=0)
    data = {
        name: [e.messages for e in choose(load_examples(name, args.data_dir), args.prompts, 0)]
        for name in args.data
    }

    def rounds(prompts: list, size: int, method: str) -> Iterator[dict]:
        drafter = METHODS[method](heads.put(size), args.num_drafts, args.draft_length)
        for result in Decoder(target, drafter, method).generate(prompts, params):
            stats = result.stats
            yield {"full_rounds": stats.full_rounds, "full_tokens": stats.full_tokens}

    def work() -> Iterator[tuple[tuple, Callable[[], Iterator[dict]]]]:
        yield ("steps",), partial(steps, target, heads, args.sizes)
        for name, prompts in data.items():
            yield ("reach", name), partial(reach, target, heads, args.sizes, prompts, params)
        for size in [0, *reversed(args.sizes)]:
            for name, prompts in data.items():
                for method in METHODS:
                    yield ("rounds", name, size, method), partial(rounds, prompts, size, method)

    carry_out(work(), args.out, args.minutes)


def carry_out(
    work: Iterable[tuple[tuple, Callable[[], Iterator[dict]]]], path: Path, minutes: float = 1e9
) -> None:
    """Append what each piece of work gives, those excepted that are there; begin none so late."""
    started = time.monotonic()
    done = {tuple(row["key"]) for row in read(path)}
    for key, measure in work:
        if key in done:
            continue
        if time.monotonic() - started > 60 * minutes:
            break
        rows = list(measure())
        with path.open("a") as out:
            out.write(json.dumps({"key": key, "rows": rows}) + "\n")
        print("finished:", *key, flush=True)


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(args: argparse.Namespace) -> None:
    rows = {tuple(row["key"]): row["rows"] for row in read(args.out)}
    times: dict = defaultdict(list)
    for row in rows.get(("steps",), []):
        times[row["size"]].append(row["ms"])
    names = [key[1] for key in rows if key[0] == "reach"]
    sizes = [*args.sizes, 0]
    print("| head | draft step, ms |", *(f"{m} |" for m in METHODS), *(f"{n} |" for n in names))
    print("| --- " * (2 + len(METHODS) + len(names)) + "|")
    for size in sizes:
        cells = [str(size or "all"), spread(times[size]) if times[size] else ""]
        for method in METHODS:
            parts = [
                {"prompt": f"{key[1]}/{i}", **part}
                for key, found in rows.items()
                if key[0] == "rounds" and key[2:] == (size, method)
                for i, part in enumerate(found)
            ]
            cells.append("{:.2f} ± {:.2f}".format(*ratio_of_sums(parts)) if parts else "")
        for name in names:
            (found,) = rows["reach", name]
            covered, overlap = (
                found[k][str(size)] / found["tokens"] for k in ("covered", "overlap")
            )
            cells.append(f"{covered:.1%}, {overlap:.3f}")
        print("|", " | ".join(cells), "|")
    if times["target"]:
        print(f"\nA target call of 13 rows takes {spread(times['target'])} ms.")
    print("Data sets: share of the target's tokens on the list, and Σ min(p, q).")


def spread(values: list[float]) -> str:
    tenths = statistics.quantiles(values, n=10)
    return f"{statistics.median(values):.1f} ({tenths[0]:.1f}–{tenths[-1]:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets' files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--list", help="a list file by `multidraft head`")
    sizes = [4096, 8192, 16384, 32768, 49152]
    parser.add_argument("--sizes", type=int, nargs="+", default=sizes)
    parser.add_argument("--data", nargs="+", default=["humaneval", "gsm8k", "mgsm-de", "mgsm-zh"])
    parser.add_argument("--prompts", type=int, default=4, help="of each data set")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.4)
    parser.add_argument("--num-drafts", type=int, default=3)
    parser.add_argument("--draft-length", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after these")
    parser.add_argument("--report", action="store_true", help="print the tables and stop")
    args = parser.parse_args()
    if not args.report:
        with torch.inference_mode():
            run(args)
    report(args)


if __name__ == "__main__":
    main()
