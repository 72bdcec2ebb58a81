"""What a round spends outside the models' calls: trees, verification, the controller, the rest.

    python docs/benchmarks/overheads.py DATA

A few prompts of each data set are decoded with hybrid trees, with SpecTr-GBV, and with everything
(`controller="auto"` over lookup and trees), as the command line drafts by default: with weights of
four bits where that is faster. The models' calls are timed where they are made; what
the draft phase takes besides is tree building (drawing, warping and softmax of the draft's laws
included). Prompts are read before the clock starts. DATA holds the data sets' files.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from pathlib import Path

from multidraft import Decoder, LanguageModel, SamplingParams, load_draft, load_model
from multidraft.bench.data import choose, load_examples
from multidraft.draft import HybridTreeDrafter, ModelDrafter
from multidraft.draft.named import widest


class Timed:
    """A model whose scoring calls are timed; everything else is the model's own."""

    def __init__(self, model: LanguageModel):
        self._model = model
        self.seconds = 0.0

    def __getattr__(self, name: str):
        return getattr(self._model, name)

    def extend(self, extensions):
        started = time.perf_counter()
        try:
            return self._model.extend(extensions)
        finally:
            self.seconds += time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--target", default="qwen2.5-coder-1.5b-instruct")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b-instruct")
    parser.add_argument("--data", nargs="+", default=["humaneval", "gsm8k"])
    parser.add_argument("--num-prompts", type=int, default=2, help="of each data set")
    parser.add_argument("--temperature", type=float, default=0.4)
    parser.add_argument("--max-tokens", type=int, default=96)
    args = parser.parse_args()
    model = load_model(args.target, slots=1)
    target = Timed(model)
    draft = Timed(load_draft(args.draft, model, dtype="auto", slots=1))
    decoders = {
        "hybrid, 18 nodes, depth 6": Decoder(target, HybridTreeDrafter(draft, 6, 18)),
        "spectr-gbv, 3 drafts of 6": Decoder(target, ModelDrafter(draft, 3, 6), "spectr-gbv"),
        "auto": Decoder(target, widest(draft, "any"), controller="auto"),
    }
    prompts = [
        [{"role": "user", "content": example.prompt}]
        for dataset in args.data
        for example in choose(load_examples(dataset, args.data_dir), args.num_prompts, 0)
    ]
    print("share of decoding time      target  draft   trees  verify control+other  last three")
    for name, decoder in decoders.items():
        spent: dict[str, float] = defaultdict(float)
        for i, prompt in enumerate(prompts):
            params = SamplingParams(
                temperature=args.temperature, max_tokens=args.max_tokens, seed=i
            )
            sequence = decoder.submit(prompt, params)
            decoder.engine.step()  # reads the prompt
            before, calls = dict(sequence.stats.seconds), (target.seconds, draft.seconds)
            while decoder.engine.busy:
                decoder.engine.step()
            phases = {k: v - before[k] for k, v in sequence.stats.seconds.items()}
            drafting = draft.seconds - calls[1]
            spent["target"] += phases["target"]
            spent["draft"] += drafting
            spent["trees"] += phases["draft"] - drafting
            spent["verify"] += phases["verify"]
            spent["other"] += phases["other"]
        total = sum(spent.values())
        share = {phase: seconds / total for phase, seconds in spent.items()}
        ours = share["trees"] + share["verify"] + share["other"]
        print(
            f"{name:26} {share['target']:7.1%} {share['draft']:7.1%} {share['trees']:7.1%} "
            f"{share['verify']:7.1%} {share['other']:13.1%} {ours:11.1%}"
        )


if __name__ == "__main__":
    main()
