"""One sequence as the engine sees it, and what a user gets back."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Literal

from multidraft.chance import RandomChance
from multidraft.engine.control.base import Choice
from multidraft.engine.stats import Stats
from multidraft.sampling import SamplingParams, Warper
from multidraft.text import TextStream
from multidraft.verify import Carry

FinishReason = Literal["stop", "length", "cancelled"]
#: Where a token came from: an accepted draft, the residual law after a rejection, or the target's
#: own law (the bonus after a fully accepted draft, and every token of plain decoding).
Origin = Literal["draft", "residual", "bonus"]


@dataclass(frozen=True)
class TokenLogprob:
    """Log-probabilities at one emitted token, of the target's raw law: before temperature,
    truncation and penalties.

    Attributes:
        token_id: the emitted token.
        logprob: its log-probability.
        top: the likeliest tokens and their log-probabilities, likeliest first.
    """

    token_id: int
    logprob: float
    top: list[tuple[int, float]]


@dataclass
class Result:
    """One finished generation.

    Attributes:
        token_ids: the tokens emitted, an end token included.
        text: their text, without special tokens and ending before a stop string; None for
            models without a tokenizer.
        finish_reason: "stop" (end token or stop string), "length" or "cancelled".
        stats: what it cost and gained.
        origins: where each token came from.
        logprobs: one per token where asked for, else None.
        choices: how much each round was to draft; `Replay` repeats it.
        prompt_token_ids: the prompt.
        prompt_index, sample_index: which prompt of the call, and which of its n samples.
    """

    token_ids: list[int]
    text: str | None
    finish_reason: FinishReason
    stats: Stats
    origins: list[Origin]
    logprobs: list[TokenLogprob] | None
    choices: list[Choice]
    prompt_token_ids: list[int]
    prompt_index: int = 0
    sample_index: int = 0


@dataclass(eq=False)  # each is itself: two may well hold the same tokens
class Sequence:
    """State of one sequence between rounds. Read it, but leave changing it to the engine."""

    prompt: list[int]
    params: SamplingParams
    chance: RandomChance
    warper: Warper
    text: TextStream | None
    stop_ids: frozenset[int]
    slot: int = -1  # of the target; -1 while waiting
    handle: int = -1  # of the drafter; -1 without one
    output: list[int] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    carry: Carry = ()
    stats: Stats = field(default_factory=Stats)
    finish_reason: FinishReason | None = None

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.output

    @property
    def last_token(self) -> int:
        return self.output[-1] if self.output else self.prompt[-1]

    @property
    def remaining(self) -> int:
        """Tokens it may still emit."""
        return self.params.max_tokens - len(self.output)

    @property
    def carry_left(self) -> int:
        return max((entry.left for entry in self.carry), default=0)

    def cut(self, tokens: Seq[int]) -> int:
        """How many of a round's tokens stay: up to a stop token or ``max_tokens``."""
        for i, token in enumerate(tokens[: self.remaining]):
            if token in self.stop_ids:
                return i + 1
        return min(len(tokens), self.remaining)

    def accept(self, tokens: Seq[int]) -> tuple[int, str]:
        """Take over a round's tokens until something stops it: (tokens kept, text to show)."""
        kept, shown = self.cut(tokens), ""
        ended = kept > 0 and tokens[kept - 1] in self.stop_ids
        if self.text is not None:
            before = self.text.tokens_used
            visible = tokens[: kept - 1] if ended else tokens[:kept]
            shown = self.text.push(visible)
            if self.text.stopped:
                kept, ended = self.text.tokens_used - before, True
        for token in tokens[:kept]:
            self.output.append(token)
            self.warper.append(token)
        if ended:
            self.finish_reason = "stop"
        elif self.remaining == 0:
            self.finish_reason = "length"
        if self.finish_reason and self.text is not None and not self.text.stopped:
            shown += self.text.finish()
        return kept, shown

    def result(self, prompt_index: int = 0, sample_index: int = 0) -> Result:
        assert self.finish_reason is not None
        return Result(
            token_ids=self.output,
            text=None if self.text is None else self.text.text,
            finish_reason=self.finish_reason,
            stats=self.stats,
            origins=self.origins,
            logprobs=None if self.params.logprobs is None else self.logprobs,
            choices=self.choices,
            prompt_token_ids=self.prompt,
            prompt_index=prompt_index,
            sample_index=sample_index,
        )
