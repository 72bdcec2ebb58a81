"""Speed-up of the controller and of fixed settings, simulated on laws recorded from a real pair.

    python docs/benchmarks/controller_simulation.py record laws.pt --data-dir DATA
    python docs/benchmarks/controller_simulation.py simulate laws.pt --temperature 0.4 --seeds 4

`record` decodes a few prompts of each data set and keeps both models' laws along the answers. In
`simulate` the law of the n-th token is the recorded one whatever the tokens before it, calls take
the seconds of a table (`multidraft bench costs`; else this pair's on two cores), and the rest is
the engine's own: its trees, its verification, its controller. Thousands of rounds take seconds and
no noise of a machine is in them, so that settings are told apart that an hour of measuring would
not tell apart. Speed-ups are over plain decoding; the target's reading of the prompt is left out
of both, the draft's is paid for. With ``--fresh`` each answer begins with a new controller.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import torch

from multidraft import Decoder, FunctionModel, SamplingParams, load_draft, load_model
from multidraft.bench.data import choose, load_examples
from multidraft.bench.theory.laws import laws_along
from multidraft.draft.base import Drafter
from multidraft.draft.named import DRAFTERS, MODEL, widest
from multidraft.engine.control.auto import AutoController
from multidraft.engine.control.base import Choice, Round
from multidraft.engine.control.costs import Costs
from multidraft.engine.control.curve import Curve
from multidraft.engine.sequence import Sequence
from multidraft.models.base import LanguageModel
from multidraft.verify import get_verifier

#: Logits kept of each law: they hold all but a ten-thousandth of it at temperature 1.
_KEPT = 384
#: Seconds by rows: Qwen2.5-Coder 1.5B in bfloat16 and 0.5B with four bits on two cores.
_TARGET = Curve.of({1: 0.110, 4: 0.116, 8: 0.130, 16: 0.168, 32: 0.265})
_DRAFT = Curve.of({1: 0.023, 2: 0.027, 4: 0.034, 8: 0.053, 16: 0.067, 32: 0.108})


def record(args: argparse.Namespace) -> None:
    target = load_model(args.target, slots=1)
    draft = load_draft(args.draft, target, dtype="auto", slots=1)
    decoder = Decoder(target, widest(draft, "any"), "traversal", controller="auto")
    texts = []
    for dataset in args.data:
        for example in choose(load_examples(dataset, args.data_dir), args.prompts, args.seed):
            params = SamplingParams(args.temperature, max_tokens=args.tokens, ignore_eos=True)
            prompt = decoder.encode(example.messages)
            tokens = prompt + decoder.generate([prompt], params)[0].token_ids
            laws = [log_laws(m, tokens, len(prompt), target.vocab_size) for m in (target, draft)]
            texts.append((dataset, prompt, laws))
            torch.save(texts, args.laws)
            print(dataset, example.id, flush=True)


def log_laws(
    model: LanguageModel, tokens: list[int], prompt_tokens: int, vocab_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest log-probabilities before each token of an answer, and their tokens."""
    lengths = range(prompt_tokens, len(tokens))
    laws = torch.stack([*laws_along(model, tokens, lengths, 1.0, vocab_size)])
    best = laws.topk(_KEPT, -1)
    return best.values.log().half(), best.indices.int()


@dataclass
class Text:
    dataset: str
    prompt: list[int]
    laws: tuple[torch.Tensor, torch.Tensor]  # target's and draft's, [tokens, V] each


def read(path: Path) -> list[Text]:
    """All texts, over as few tokens as they have laws of."""
    texts = []
    for dataset, prompt, laws in torch.load(path):
        known = [torch.tensor(prompt), *(kept.flatten().long() for _, kept in laws)]
        ids = torch.unique(torch.cat(known))
        rows = []
        for values, kept in laws:
            law = torch.zeros(len(values), len(ids), dtype=torch.float64)
            law.scatter_(1, torch.searchsorted(ids, kept.long()), values.double().exp())
            rows.append(law / law.sum(-1, keepdim=True))
        place = torch.searchsorted(ids, known[0]).tolist()
        texts.append(Text(dataset, place, (rows[0], rows[1])))
    widest_law = max(text.laws[0].shape[1] for text in texts)
    for text in texts:
        more = widest_law - text.laws[0].shape[1]
        target, draft = (torch.nn.functional.pad(law, (0, more)) for law in text.laws)
        text.laws = target, draft
    return texts


class Clock:
    """Stands in for the clock: what a controller learns is what the calls of a table take.

    Attributes:
        seconds: that all rounds have taken.
    """

    def __init__(self, inner: AutoController | None, target: Curve, draft: Curve):
        self.seconds = 0.0
        self._inner, self._target, self._draft = inner, target, draft
        self._seen: WeakKeyDictionary[Sequence, int] = WeakKeyDictionary()  # by the draft, tokens

    def choose(self, running):
        if self._inner is not None:
            return self._inner.choose(running)
        return [Choice(s.remaining - 1) for s in running]

    def learn(self, rounds: list[Round], draft_seconds: float, target_seconds: float) -> None:
        (only,) = rounds
        rows = only.tree.draft_rows
        if rows:
            before = len(only.sequence.prompt) + len(only.sequence.output) - only.kept
            rows[0] += before - self._seen.get(only.sequence, 0) - 1
            self._seen[only.sequence] = before + min(only.accepted, len(rows) - 1)
        drafting, scoring = sum(map(self._draft, rows)), self._target(len(only.tree))
        self.seconds += drafting + scoring
        if self._inner is not None:
            self._inner.learn([replace(only, verify_seconds=0.0)], drafting, scoring)


class Bench:
    """One method over all texts."""

    def __init__(self, method: str, vocab_size: int, costs: tuple[Curve, Curve]):
        self._now: Text | None = None
        self._models = [FunctionModel(vocab_size, self._law(which)) for which in (0, 1)]
        self._method, self._costs = method, costs
        self.begin()

    def _law(self, which: int):
        def law(context: tuple[int, ...]) -> torch.Tensor:
            assert self._now is not None
            rows = self._now.laws[which]
            return rows[min(len(context) - len(self._now.prompt), len(rows) - 1)]

        return law

    def begin(self) -> None:
        """With a new controller."""
        drafter, verifier, measures = _drafter(self._method, self._models[1])
        target, draft = self._costs
        inner = AutoController(drafter, Costs(target, draft)) if measures else None
        self.clock = Clock(inner, target, draft)
        self._decoder = Decoder(self._models[0], drafter, verifier, controller=self.clock)

    def run(self, text: Text, temperature: float, seed: int, most: int) -> tuple[int, int, float]:
        """Tokens, rounds and seconds."""
        self._now, before = text, self.clock.seconds
        max_tokens = min(most, len(text.laws[0]) - 1)
        params = SamplingParams(temperature, max_tokens=max_tokens, seed=seed)
        (result,) = self._decoder.generate([text.prompt], params)
        return len(result.token_ids), result.stats.rounds, self.clock.seconds - before


def _drafter(method: str, draft: LanguageModel) -> tuple[Drafter, str, bool]:
    """``auto``, ``auto+VERIFIER``, or ``VERIFIER:KxL`` and ``hybrid:KxL``."""
    name, _, size = method.partition(":")
    if not size:
        verifier = name.partition("+")[2] or "traversal"
        return widest(draft, get_verifier(verifier).drafts), verifier, True
    num_drafts, length = map(int, size.split("x"))
    drafter = DRAFTERS.get(name, MODEL).make(draft, num_drafts, length)
    return drafter, "traversal" if name in DRAFTERS else name, False


def simulate(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    texts = read(args.laws)
    costs = (_TARGET, _DRAFT)
    if args.costs is not None:
        from multidraft.bench.simulate.costs import read_costs

        table = read_costs(args.costs)
        costs = (table.target, table.step())
    plain = costs[0](1)
    for method in args.methods:
        bench = Bench(method, texts[0].laws[0].shape[1], costs)
        ratios: dict[str, list[float]] = defaultdict(list)
        tokens_a_round = []
        for text, seed in _turns(texts, args.seeds):
            if args.fresh:
                bench.begin()
            tokens, rounds, seconds = bench.run(text, args.temperature, seed, args.tokens)
            ratios[text.dataset].append(tokens * plain / seconds)
            tokens_a_round.append(tokens / rounds)
        every = np.array([ratio for found in ratios.values() for ratio in found])
        error = every.std(ddof=1) / len(every) ** 0.5
        sets = "  ".join(f"{name} {np.mean(found):.2f}" for name, found in ratios.items())
        print(
            f"{method:16} {every.mean():.3f} ± {error:.3f}  {sets}  lowest {every.min():.2f}"
            f"  tokens/round {np.mean(tokens_a_round):.2f}",
            flush=True,
        )


def _turns(texts: list[Text], seeds: int) -> Iterator[tuple[Text, int]]:
    """All texts with each seed, the data sets in turn."""
    order = np.random.default_rng(0).permutation(len(texts))
    for seed in range(1, seeds + 1):
        yield from ((texts[i], seed) for i in order)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.set_defaults(run=record)
    recording.add_argument("laws", type=Path)
    recording.add_argument("--target", default="qwen2.5-coder-1.5b-instruct")
    recording.add_argument("--draft", default="qwen2.5-coder-0.5b-instruct")
    recording.add_argument("--data-dir", type=Path)
    recording.add_argument(
        "--data", nargs="+", default=["humaneval", "gsm8k", "mgsm-de", "mgsm-zh", "alpaca"]
    )
    recording.add_argument("--prompts", type=int, default=4, help="of each data set")
    recording.add_argument("--tokens", type=int, default=128)
    recording.add_argument("--temperature", type=float, default=0.4)
    recording.add_argument("--seed", type=int, default=7)
    simulating = commands.add_parser("simulate")
    simulating.set_defaults(run=simulate)
    simulating.add_argument("laws", type=Path)
    simulating.add_argument(
        "--methods",
        nargs="+",
        default=["auto", "auto+block", "auto+spectr-gbv", "hybrid:2x4", "spectr-gbv:3x4"],
        help="auto, auto+VERIFIER, VERIFIER:KxL, hybrid:KxL",
    )
    simulating.add_argument("--temperature", type=float, default=0.4)
    simulating.add_argument("--seeds", type=int, default=4)
    simulating.add_argument("--tokens", type=int, default=1000, help="of an answer, at most")
    simulating.add_argument("--fresh", action="store_true", help="a new controller each answer")
    simulating.add_argument("--costs", type=Path, help="a table of `multidraft bench costs`")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
