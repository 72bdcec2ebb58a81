"""Block efficiency of every verifier on HumanEval prompts, with standard errors over prompts.

    python docs/benchmarks/block_efficiency.py HumanEval.jsonl --out block_efficiency.jsonl

Each (verifier, temperature) decodes the first prompts, through the chat template, several rounds
of samples if need be, until it has enough full rounds. Finished samples are appended to --out, so
an interrupted run goes on where it stopped. `--report` only prints the table of what is there.
Block efficiency does not depend on the machine, so sequences are decoded in batches of eight.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from multidraft import Decoder, SamplingParams, load_model
from multidraft.draft import ModelDrafter
from multidraft.verify import VERIFIERS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompts", type=Path, help="HumanEval's JSONL file")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--num-prompts", type=int, default=20)
    parser.add_argument("--num-drafts", type=int, default=3)
    parser.add_argument("--draft-length", type=int, default=6)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.4, 1.0])
    parser.add_argument("--verifiers", nargs="+", default=list(VERIFIERS))
    parser.add_argument("--max-tokens", type=int, default=176)
    parser.add_argument("--rounds", type=int, default=600, help="full rounds wanted of each")
    parser.add_argument("--report", action="store_true", help="print the table of --out and stop")
    args = parser.parse_args()
    if not args.report:
        run(args)
    report(args.out)


def run(args: argparse.Namespace) -> None:
    target, draft = load_model(args.target), load_model(args.draft)
    lines = args.prompts.read_text().splitlines()[: args.num_prompts]
    prompts = [
        [{"role": "user", "content": "Complete this function.\n\n" + json.loads(line)["prompt"]}]
        for line in lines
    ]
    done = read(args.out)
    for temperature in args.temperatures:
        for name in args.verifiers:
            count = 1 if VERIFIERS[name].drafts == "one" else args.num_drafts
            decoder = Decoder(target, ModelDrafter(draft, count, args.draft_length), name)
            for sample in range(100):
                rows = done[name, temperature]
                if sum(row["full_rounds"] for row in rows) >= args.rounds:
                    break
                if any(row["sample"] == sample for row in rows):
                    continue
                params = SamplingParams(
                    temperature=temperature, max_tokens=args.max_tokens, seed=sample
                )
                # Of a further sample no more prompts than the missing rounds take.
                taken = len(prompts)
                if rows:
                    found = sum(row["full_rounds"] for row in rows)
                    taken = min(taken, 1 + (args.rounds - found) * len(rows) // max(found, 1))
                with args.out.open("a") as out:
                    for i, result in enumerate(decoder.generate(prompts[:taken], params)):
                        row = {
                            "verifier": name,
                            "temperature": temperature,
                            "sample": sample,
                            "prompt": i,
                            "full_rounds": result.stats.full_rounds,
                            "full_tokens": result.stats.full_tokens,
                            "tokens": result.stats.tokens,
                        }
                        rows.append(row)
                        out.write(json.dumps(row) + "\n")
                print(f"{name} T={temperature} sample {sample} done", flush=True)


def read(path: Path) -> dict[tuple[str, float], list[dict]]:
    rows: dict[tuple[str, float], list[dict]] = defaultdict(list)
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line)
        rows[row["verifier"], row["temperature"]].append(row)
    return rows


def report(path: Path) -> None:
    print("| verifier | temperature | block efficiency | standard error | full rounds |")
    print("| --- | --- | --- | --- | --- |")
    for (name, temperature), rows in read(path).items():
        value, error = ratio_of_sums(rows)
        rounds = sum(row["full_rounds"] for row in rows)
        print(f"| {name} | {temperature} | {value:.2f} | {error:.2f} | {rounds} |")


def ratio_of_sums(rows: list[dict]) -> tuple[float, float]:
    """Tokens per round and its standard error, prompts as the independent units (delta method)."""
    sums: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(2))
    for row in rows:
        sums[row["prompt"]] += (row["full_tokens"], row["full_rounds"])
    tokens, rounds = np.array(list(sums.values())).T
    value = tokens.sum() / rounds.sum()
    n = len(tokens)
    spread = np.sqrt(n / (n - 1) * ((tokens - value * rounds) ** 2).sum())
    return value, spread / rounds.sum()


if __name__ == "__main__":
    main()
