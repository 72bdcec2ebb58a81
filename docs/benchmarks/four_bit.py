"""Drafts with weights of four bits beside the same drafts in bfloat16.

    python docs/benchmarks/four_bit.py DATA --out four_bit.jsonl

DATA holds the data sets' files (see docs/benchmarking.md). Three parts:

- steps: draft calls of 1 to 8 rows after 200 tokens, the two drafts in turn; median, and from the
  fastest to the slowest tenth;
- overlap: texts sampled from the target, every token of which all models score: Σ min(p, q), the
  chance that one draft token is accepted;
- speed: each prompt decoded plainly and with each method and draft, in turn; tokens a second over
  those of plain decoding after the first round, geometric means and standard errors over prompts.

What is finished is appended to --out, so an interrupted run goes on where it stopped; `--report`
only prints the tables of what is there.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from reduced_head import call_of, carry_out, read, score, spread

from multidraft import Decoder, LanguageModel, SamplingParams, load_draft, load_model
from multidraft.bench.compare import decoder_for
from multidraft.bench.data import Example, choose, load_examples
from multidraft.draft.named import widest
from multidraft.sampling import Warper

DTYPES = ("bfloat16", "int4")
METHODS = {"token": (1, 4), "spectr-gbv": (3, 4), "spectr-gbv deep": (3, 8)}  # K, L
ROWS = (1, 2, 3, 4, 8)
ROUNDS = 30


def steps(drafts: dict[str, LanguageModel]) -> Iterator[dict]:
    for rows in ROWS:
        calls = {dtype: call_of(draft, rows) for dtype, draft in drafts.items()}
        for _ in range(ROUNDS):
            for dtype, call in calls.items():
                yield {"rows": rows, "dtype": dtype, "ms": call()}
        for draft in drafts.values():
            draft.close(0)


def overlap(
    target: LanguageModel, drafts: dict[str, LanguageModel], examples: list[Example], t: float
) -> Iterator[dict]:
    for example in examples:
        params = SamplingParams(temperature=t, max_tokens=64, seed=0)
        (result,) = Decoder(target).generate([example.messages], params)
        tokens, out = Decoder(target).encode(example.messages), result.token_ids
        warper = Warper(SamplingParams(temperature=t), [], target.vocab_size)

        def laws(model, tokens=tokens, out=out, warper=warper):
            return warper.laws(score(model, tokens, out)[:, : target.vocab_size])

        p = laws(target)
        shared = {d: torch.minimum(p, laws(m)).sum(-1).mean().item() for d, m in drafts.items()}
        yield {"temperature": t, **shared}


def speed(decoders: dict[str, Decoder], example: Example, t: float) -> Iterator[dict]:
    params = SamplingParams(temperature=t, max_tokens=64, seed=1, ignore_eos=True)
    speeds = {}
    for name, decoder in decoders.items():
        running = decoder.submit(example.messages, params)
        decoder.engine.step()  # reads the prompt
        before, started = len(running.output), time.perf_counter()
        while decoder.engine.busy:
            decoder.engine.step()
        speeds[name] = (len(running.output) - before) / (time.perf_counter() - started)
    yield {"temperature": t, **speeds}


def decoders_of(target: LanguageModel, drafts: dict[str, LanguageModel]) -> dict[str, Decoder]:
    decoders = {"ar": Decoder(target)}
    for dtype, draft in drafts.items():
        for name, (count, length) in METHODS.items():
            decoders[f"{name} {dtype}"] = decoder_for(name.split()[0], target, draft, count, length)
        auto = Decoder(target, widest(draft, "any"), controller="auto")
        decoders[f"auto {dtype}"] = auto
    return decoders


def run(args: argparse.Namespace) -> None:
    target = load_model(args.target, dtype="bfloat16", slots=1)
    drafts = {d: load_draft(args.draft, target, dtype=d, slots=1) for d in DTYPES}
    decoders = decoders_of(target, drafts)
    data = {name: choose(load_examples(name, args.data_dir), args.prompts, 0) for name in args.data}

    def work() -> Iterator[tuple[tuple, Callable[[], Iterator[dict]]]]:
        yield ("steps",), partial(steps, drafts)
        for t in args.temperatures:
            for name, examples in data.items():
                yield ("overlap", name, t), partial(overlap, target, drafts, examples, t)
        for number in range(args.prompts):
            for t in args.temperatures:
                for name, examples in data.items():
                    if number < len(examples):
                        key = ("speed", name, t, number)
                        yield key, partial(speed, decoders, examples[number], t)

    carry_out(work(), args.out)


def report(path: Path) -> None:
    found = {tuple(row["key"]): row["rows"] for row in read(path)}
    times: dict = defaultdict(list)
    for row in found.get(("steps",), []):
        times[row["dtype"], row["rows"]].append(row["ms"])
    print("draft call, ms, by rows")
    for dtype in DTYPES:
        cells = (f"{rows}: {spread(times[dtype, rows])}" for rows in ROWS if times[dtype, rows])
        print(f"  {dtype:9}", "  ".join(cells))
    print("overlap")
    for key, rows in found.items():
        if key[0] == "overlap":
            means = (f"{d} {np.mean([row[d] for row in rows]):.3f}" for d in DTYPES)
            print(f"  {key[1]:10} T = {key[2]:g}:", ", ".join(means))
    print("speed over plain decoding (geometric mean over prompts, standard error)")
    cells = sorted({key[1:3] for key in found if key[0] == "speed"})
    for name, t in cells:
        rows = [r for key, part in found.items() if key[:3] == ("speed", name, t) for r in part]
        print(f"  {name}, T = {t:g}, {len(rows)} prompts")
        for method in rows[0]:
            if method not in ("temperature", "ar"):
                logs = np.log([row[method] / row["ar"] for row in rows])
                error = logs.std(ddof=1) / len(logs) ** 0.5 if len(logs) > 1 else np.nan
                mean = np.exp(logs.mean())
                print(f"    {method:25} {mean:.2f} ± {mean * error:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--data", nargs="+", default=["humaneval", "gsm8k", "mgsm-de", "alpaca"])
    parser.add_argument("--prompts", type=int, default=4, help="of each data set")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.4])
    parser.add_argument("--report", action="store_true", help="print the tables and stop")
    args = parser.parse_args()
    if not args.report:
        with torch.inference_mode():
            run(args)
    report(args.out)


if __name__ == "__main__":
    main()
