"""Verification's share: its seconds over the target call's, for every verifier, on a real pair.

    python docs/benchmarks/verification_cost.py HumanEval.jsonl

Verification includes the target's softmaxes, temperature and top-p. Methods are interleaved prompt
by prompt, so that a noisy machine hits all alike; the spread is over prompts.
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
    parser.add_argument("--target", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--num-prompts", type=int, default=6)
    parser.add_argument("--num-drafts", type=int, default=3)
    parser.add_argument("--draft-length", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-p", type=float, default=0.9)
    parser.add_argument("--max-tokens", type=int, default=48)
    args = parser.parse_args()

    target, draft = load_model(args.target), load_model(args.draft)
    lines = args.prompts.read_text().splitlines()[: args.num_prompts]
    params = SamplingParams(
        temperature=args.temperature, top_p=args.top_p, max_tokens=args.max_tokens, seed=0
    )
    decoders = {}
    for name, verifier in VERIFIERS.items():
        count = 1 if verifier.drafts == "one" else args.num_drafts
        decoders[name] = Decoder(target, ModelDrafter(draft, count, args.draft_length), name)

    seconds = defaultdict(list)  # per verifier and prompt: seconds per round in each phase
    for i, line in enumerate(lines):
        prompt = [{"role": "user", "content": json.loads(line)["prompt"]}]
        for name, decoder in decoders.items():
            sequence = decoder.submit(prompt, params)
            decoder.engine.step()  # its target time holds the prefill
            first = dict(sequence.stats.seconds)
            while decoder.engine.busy:
                decoder.engine.step()
            rounds = sequence.stats.rounds - 1
            if i > 0 and rounds:  # the first prompt warms up
                spent = sequence.stats.seconds
                seconds[name].append({p: (spent[p] - first[p]) / rounds for p in spent})
        print(f"prompt {i + 1} of {len(lines)}", flush=True)

    print("| verifier | verify, ms a round | verify / target, median | lowest | highest |")
    print("| --- | --- | --- | --- | --- |")
    for name, rows in seconds.items():
        verify = np.median([row["verify"] for row in rows]) * 1e3
        shares = [row["verify"] / row["target"] for row in rows]
        print(
            f"| {name} | {verify:.1f} | {np.median(shares):.1%} "
            f"| {min(shares):.1%} | {max(shares):.1%} |"
        )


if __name__ == "__main__":
    main()
