"""Tokens per target call of hybrid trees and of SpecTr-GBV at the same number of scored positions.

    python docs/benchmarks/hybrid_pair.py DATA --out hybrid_pair.jsonl

DATA holds the data sets' files (see docs/benchmarking.md). Every prompt is decoded in every
setting; what is finished is appended to --out, so an interrupted run goes on where it stopped. The
ratio is that of all tokens to all calls, paired over prompts, with standard errors by the
jackknife, to SpecTr-GBV of the same depth (as many draft calls) and of the best depth. It does not
depend on the machine, so prompts are decoded in batches. `--report` only prints the table.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from multidraft import Decoder, LanguageModel, SamplingParams, load_model
from multidraft.bench.data import choose, load_examples
from multidraft.draft import HybridTreeDrafter, ModelDrafter

POSITIONS = 18
#: (name, depth): independent drafts have POSITIONS / depth of them, trees that depth.
SETTINGS = (
    ("spectr-gbv", 6),
    ("spectr-gbv", 9),
    ("spectr-gbv", 18),
    ("hybrid", 6),
    ("hybrid", 9),
    ("hybrid", 12),
    ("hybrid", 18),
)
BASELINE = "spectr-gbv"
_BATCH = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--data", nargs="+", default=["humaneval", "gsm8k", "mgsm-de", "alpaca"])
    parser.add_argument("--num-prompts", type=int, default=16, help="of each data set")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.4, 1.0])
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--report", action="store_true", help="print the table of --out and stop")
    args = parser.parse_args()
    if not args.report:
        run(args)
    report(read(args.out))


def decoder_for(name: str, depth: int, target: LanguageModel, draft: LanguageModel) -> Decoder:
    if name == "hybrid":
        return Decoder(target, HybridTreeDrafter(draft, depth, POSITIONS), "traversal")
    return Decoder(target, ModelDrafter(draft, POSITIONS // depth, depth), name)


def run(args: argparse.Namespace) -> None:
    done = {key(row) for row in read(args.out)}
    target = load_model(args.target, slots=_BATCH)
    draft = load_model(args.draft, slots=_BATCH)
    examples = {d: choose(load_examples(d, args.data_dir), args.num_prompts, 0) for d in args.data}
    for start in range(0, args.num_prompts, _BATCH):  # all settings of a few prompts, then more
        for dataset in args.data:
            batch = examples[dataset][start : start + _BATCH]
            prompts = [[{"role": "user", "content": example.prompt}] for example in batch]
            for temperature in args.temperatures:
                params = SamplingParams(
                    temperature=temperature, max_tokens=args.max_tokens, seed=start
                )
                for name, depth in SETTINGS:
                    rows = [
                        {
                            "method": name,
                            "depth": depth,
                            "temperature": temperature,
                            "dataset": dataset,
                            "prompt": example.id,
                        }
                        for example in batch
                    ]
                    if not rows or all(key(row) in done for row in rows):
                        continue
                    decoder = decoder_for(name, depth, target, draft)
                    results = decoder.generate(prompts, params)
                    with args.out.open("a") as out:
                        for row, result in zip(rows, results, strict=True):
                            stats = result.stats
                            row |= {"tokens": stats.tokens, "calls": stats.target_calls}
                            out.write(json.dumps(row) + "\n")


def key(row: dict) -> tuple:
    return tuple(row[k] for k in ("method", "depth", "temperature", "dataset", "prompt"))


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(rows: list[dict]) -> None:
    found: dict[tuple, dict] = defaultdict(dict)
    for row in rows:
        prompt = row["dataset"], row["prompt"]
        found[row["temperature"], row["method"], row["depth"]][prompt] = (
            row["tokens"],
            row["calls"],
        )
    for temperature in sorted({t for t, _, _ in found}):
        settings = {s[1:]: each for s, each in found.items() if s[0] == temperature}
        common = set.intersection(*(set(each) for each in settings.values()))
        datasets = sorted({dataset for dataset, _ in common})
        print(f"\nT = {temperature:g}, {POSITIONS} scored positions, {len(common)} prompts")
        for dataset in [*datasets, "all"]:
            prompts = sorted(p for p in common if dataset in (p[0], "all"))
            counts = {
                s: np.array([each[p] for p in prompts], float) for s, each in settings.items()
            }
            fixed = [s for s in counts if s[0] == BASELINE]
            best = max(fixed, key=lambda s: _rate(counts[s]))
            for setting, each in sorted(counts.items(), key=lambda item: item[0][::-1]):
                name, depth = setting
                line = f"  {dataset:9} {name:10} depth {depth:2} {_rate(each):6.2f} tokens a call"
                for base in dict.fromkeys([(BASELINE, depth), best]):
                    if base in counts and base != setting:
                        ratio, error = _ratio(each, counts[base])
                        line += f"  {ratio:.3f} ± {error:.3f} × that at depth {base[1]}"
                print(line)


def _rate(counts: np.ndarray) -> float:
    tokens, calls = counts.sum(axis=0)
    return float(tokens / calls)


def _ratio(counts: np.ndarray, base: np.ndarray) -> tuple[float, float]:
    """Ratio of the rates of the same prompts, and its jackknife standard error."""
    n = len(counts)
    whole = _rate(counts) / _rate(base)
    without = [
        _rate(np.delete(counts, i, axis=0)) / _rate(np.delete(base, i, axis=0)) for i in range(n)
    ]
    return whole, float(np.sqrt((n - 1) / n * ((without - np.mean(without)) ** 2).sum()))


if __name__ == "__main__":
    main()
