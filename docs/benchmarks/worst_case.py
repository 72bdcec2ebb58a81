"""Drafts that cannot help: how near the controller stays to plain decoding.

    python docs/benchmarks/worst_case.py DATA --out worst_case.jsonl

Three drafts: one of random weights with the draft model's shape, one as slow as the target that
always agrees with it (the target's own layers, all of them), and one as slow that does not (random
weights with the target's shape). Each prompt is decoded plainly and with `controller="auto"` over
hybrid trees, the two taking turns round by round; end tokens are passed over. The speeds are those
after the first tokens (--learning), so that what is learnt from is left out. DATA holds the data
sets' files. Finished prompts are appended to --out; `--report` only prints the table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from multidraft import Decoder, LanguageModel, SamplingParams, load_model
from multidraft.bench.data import choose, load_examples
from multidraft.draft import HybridTreeDrafter
from multidraft.models import TransformersModel
from multidraft.models.store import resolve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--data", default="gsm8k")
    parser.add_argument("--num-prompts", type=int, default=4)
    parser.add_argument("--temperature", type=float, default=0.4)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--learning", type=int, default=100, help="tokens that are not counted")
    parser.add_argument("--report", action="store_true", help="print the table of --out and stop")
    args = parser.parse_args()
    if not args.report:
        run(args)
    report(read(args.out))


def drafts(
    args: argparse.Namespace, target: TransformersModel
) -> Iterator[tuple[str, LanguageModel]]:
    yield "noise", noise(args.draft, target)
    yield "slow", target.with_layers(range(target.num_layers))
    yield "slow noise", noise(args.target, target)


def noise(name: str, target: TransformersModel) -> TransformersModel:
    """Random weights in the shape of a model."""
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(resolve(name))
    model = AutoModelForCausalLM.from_config(config, dtype=target.dtype)
    return TransformersModel(model, tokenizer=target.tokenizer, slots=1)


def run(args: argparse.Namespace) -> None:
    done = {(row["draft"], row["prompt"]) for row in read(args.out)}
    target = load_model(args.target, slots=2)
    examples = choose(load_examples(args.data, args.data_dir), args.num_prompts, 0)
    for name, draft in drafts(args, target):
        left = [example for example in examples if (name, example.id) not in done]
        if not left:
            continue
        decoders = {
            "plain": Decoder(target),
            "auto": Decoder(target, HybridTreeDrafter(draft, 12, 24), controller="auto"),
        }
        for example in left:
            prompt = [{"role": "user", "content": example.prompt}]
            speeds = side_by_side(decoders, prompt, args)
            with args.out.open("a") as out:
                out.write(json.dumps({"draft": name, "prompt": example.id, **speeds}) + "\n")


def side_by_side(
    decoders: dict[str, Decoder], prompt: list, args: argparse.Namespace
) -> dict[str, list[float]]:
    """Of each decoder, tokens a second after the first ones, and before.

    They take turns round by round, the one with fewer tokens first: a machine that gets busier does
    so for both.
    """
    params = SamplingParams(
        temperature=args.temperature, max_tokens=args.tokens, seed=1, ignore_eos=True
    )
    running = {which: decoder.submit(prompt, params) for which, decoder in decoders.items()}
    for decoder in decoders.values():
        decoder.engine.step()  # reads the prompt
    tokens = {which: [0, 0] for which in decoders}  # after the first ones, and of them
    seconds = {which: [0.0, 0.0] for which in decoders}
    while busy := [which for which in decoders if decoders[which].engine.busy]:
        which = min(busy, key=lambda each: len(running[each].output))
        before, started = len(running[which].output), time.perf_counter()
        decoders[which].engine.step()
        early = int(before < args.learning)
        seconds[which][early] += time.perf_counter() - started
        tokens[which][early] += len(running[which].output) - before
    return {
        which: [n / s for n, s in zip(tokens[which], seconds[which], strict=True)]
        for which in decoders
    }


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(rows: list[dict]) -> None:
    print("draft        prompts  plain tok/s  auto/plain (one by one)             before that")
    for name in dict.fromkeys(row["draft"] for row in rows):
        pairs = [row for row in rows if row["draft"] == name]
        after, before = (
            np.array([row["auto"][i] / row["plain"][i] for row in pairs]) for i in (0, 1)
        )
        plain = np.mean([row["plain"][0] for row in pairs])
        each = " ".join(f"{ratio:.3f}" for ratio in after)
        mean, low = np.exp(np.log(after).mean()), np.exp(np.log(before).mean())
        print(f"{name:12} {len(pairs):7}  {plain:11.2f}  {mean:.3f} ({each})  {low:.3f}")


if __name__ == "__main__":
    main()
