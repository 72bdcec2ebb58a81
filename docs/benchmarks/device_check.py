"""Check a device: greedy output of every verifier equals plain decoding's, token for token.

    python docs/benchmarks/device_check.py --device cuda

In float32, at temperature 0; then in the device's default dtype, speed and block efficiency.
Ends with exit code 1 if any output differs.
"""

from __future__ import annotations

import argparse
import sys

from multidraft import Decoder, SamplingParams, load_model
from multidraft.bench.compare import decoder_for
from multidraft.verify import VERIFIERS

PROMPTS = [
    [{"role": "user", "content": "Write a Python function that reverses a string."}],
    [{"role": "user", "content": "Explain in two sentences why the sky is blue."}],
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--target", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--max-tokens", type=int, default=64)
    args = parser.parse_args()
    differing = [name for name in VERIFIERS if not same(args, name)]
    speeds(args)
    if differing:
        sys.exit(f"Output differs from plain decoding's: {', '.join(differing)}.")


_loaded: dict[tuple[str, str, str], object] = {}


def model(args: argparse.Namespace, name: str, dtype: str):
    key = (name, args.device, dtype)
    if key not in _loaded:
        _loaded[key] = load_model(name, dtype=dtype, device=args.device)
    return _loaded[key]


def same(args: argparse.Namespace, verifier: str) -> bool:
    target, draft = (model(args, name, "float32") for name in (args.target, args.draft))
    params = SamplingParams(temperature=0, max_tokens=args.max_tokens)
    plain = [r.token_ids for r in Decoder(target).generate(PROMPTS, params)]
    drafted = decoder_for(verifier, target, draft, 3, 4).generate(PROMPTS, params)
    equal = plain == [r.token_ids for r in drafted]
    print(f"{verifier}: {'equal' if equal else 'DIFFERENT'}", flush=True)
    return equal


def speeds(args: argparse.Namespace) -> None:
    _loaded.clear()
    target, draft = (model(args, name, "auto") for name in (args.target, args.draft))
    params = SamplingParams(temperature=0.4, max_tokens=args.max_tokens, seed=1)
    for method in ("ar", *VERIFIERS):
        decoder = decoder_for(method, target, draft, 3, 4)
        decoder.generate(PROMPTS[:1], params)  # warm-up
        stats = decoder.generate(PROMPTS[:1], params)[0].stats
        efficiency = stats.block_efficiency or 0.0
        print(
            f"{method}: {stats.tokens_per_second:.1f} tokens/s, block efficiency {efficiency:.2f}"
        )


if __name__ == "__main__":
    main()
