"""What all peers have in common: they decode one prompt after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from multidraft.bench.outcome import Outcome, Stopwatch, refusal
from multidraft.engine import Decoder
from multidraft.models import TransformersModel
from multidraft.sampling import SamplingParams


class OneByOne(ABC):
    """A peer. It refuses the same prompts as this engine.

    Args:
        reference: this engine's target: its end tokens, context and tokenizer.
    """

    def __init__(self, reference: TransformersModel):
        self.reference = reference
        self._decoder = Decoder(reference)

    def decode(
        self,
        prompts: Sequence[list[int]],
        params: Sequence[SamplingParams],
        interrupted: Callable[[], bool],
    ) -> list[Outcome] | None:
        """See `Contestant`."""
        outcomes = []
        for prompt, p in zip(prompts, params, strict=True):
            outcome = refusal(self._decoder, prompt, p) or self.generate(prompt, p, interrupted)
            if outcome is None:
                return None
            outcomes.append(outcome)
        return outcomes

    @abstractmethod
    def generate(
        self, prompt: list[int], params: SamplingParams, interrupted: Callable[[], bool]
    ) -> Outcome | None:
        """Decode one prompt; None if interrupted."""

    def outcome(self, tokens: list[int], clock: Stopwatch, total: float) -> Outcome:
        """The outcome of these tokens, which took ``total`` seconds."""
        text = ""
        if self.reference.tokenizer is not None:
            text = self.reference.tokenizer.decode(tokens, skip_special_tokens=True)
        return Outcome(
            tokens=len(tokens),
            seconds={"draft": 0.0, "target": 0.0, "verify": 0.0, "other": round(total, 6)},
            first_token=clock.first,
            gaps=clock.gaps,
            finish_reason="stop" if tokens[-1] in self.reference.eos_token_ids else "length",
            text=text,
        )
