"""What a round costs besides the models' calls, measured in whole generations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from multidraft.bench.methods import PLAIN, parse_method
from multidraft.bench.ours import EngineContestant
from multidraft.engine import Decoder
from multidraft.engine.control.curve import Curve
from multidraft.errors import InvalidInput
from multidraft.models import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.verify import get_verifier

_TOKENS = 20  # decoded at a time
_PROMPT = (
    "Write a Python function that returns the n-th Fibonacci number, and explain how it works."
)


class Rounds:
    """Generations of plain decoding and of each verifier with independent drafts, timed by phase.

    Args:
        target, draft: the pair, each with a free slot.
        verifiers: names.
        num_drafts, draft_lengths: K and L.
        params: how to sample.

    Raises:
        InvalidInput: an unknown verifier, or (in a turn) a model with too short a context.
    """

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel,
        verifiers: Sequence[str],
        num_drafts: int,
        draft_lengths: Sequence[int],
        params: SamplingParams,
    ):
        chat = target.tokenizer is not None and target.tokenizer.chat_template
        message = [{"role": "user", "content": _PROMPT}] if chat else _PROMPT
        self._prompt = Decoder(target).encode(message)
        self._params = replace(params, max_tokens=_TOKENS, ignore_eos=True)
        self._contestants = [(PLAIN, 0, EngineContestant(parse_method(PLAIN), target, None, 0, 0))]
        for name in dict.fromkeys(verifiers):
            number = 1 if get_verifier(name).drafts == "one" else num_drafts
            for length in draft_lengths:
                made = EngineContestant(parse_method(name), target, draft, number, length)
                self._contestants.append((name, length, made))
        # By phase, then by verifier and L: (mean positions, mean seconds) of a generation's rounds.
        self._seen: dict[str, dict[tuple[str, int], list[tuple[float, float]]]] = {
            phase: defaultdict(list) for phase in ("verify", "other")
        }

    def turn(self, seed: int, counts: bool) -> None:
        """One generation of each; ``counts``: it is remembered."""
        params = replace(self._params, seed=seed)
        for name, length, contestant in self._contestants:
            outcomes = contestant.decode([self._prompt], [params], lambda: False)
            assert outcomes is not None
            (outcome,) = outcomes
            if outcome.error:
                raise InvalidInput(f"{name} cannot be measured: {outcome.error}")
            if counts:
                rounds = len(outcome.rounds)
                positions = fmean(calls[0] for calls in outcome.calls)
                for phase, seen in self._seen.items():
                    seen[name, length].append((positions, outcome.seconds[phase] / rounds))

    def curves(self, phase: str) -> dict[str, Curve]:
        """Medians of the generations, by verifier: seconds of a round by positions scored."""
        points: dict[str, dict[float, float]] = defaultdict(dict)
        for (name, _), seen in self._seen[phase].items():
            positions, seconds = zip(*seen, strict=True)
            points[name][round(fmean(positions), 1)] = round(median(seconds), 6)
        return {name: Curve.of(costs) for name, costs in points.items()}
