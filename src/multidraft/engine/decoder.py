"""What users call: prompts in, texts out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

from jinja2 import TemplateError

from multidraft.draft.base import Drafter
from multidraft.engine.control.auto import AutoController
from multidraft.engine.control.base import Controller
from multidraft.engine.control.costs import costs_of
from multidraft.engine.engine import Engine
from multidraft.engine.sequence import Origin, Result, Sequence
from multidraft.errors import InvalidInput
from multidraft.models.base import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.verify import Verifier

Messages = Seq[Mapping[str, Any]]
#: Text, token ids, or chat messages such as ``[{"role": "user", "content": "…"}]``.
Prompt = str | Seq[int] | Messages

#: The method used where none is named.
DEFAULT_VERIFIER = "traversal"


@dataclass(frozen=True)
class Piece:
    """One streamed piece; ``print(piece, end="")`` shows its text.

    Attributes:
        text: new text, "" while a possible stop string or an unfinished character is held back.
        token_ids: new tokens.
        origins: where each came from.
        result: the whole result, on the last piece only.
    """

    text: str
    token_ids: list[int]
    origins: list[Origin]
    result: Result | None

    def __str__(self) -> str:
        return self.text


class Decoder:
    """Decodes with a target model, a drafter and a verification method.

    Args:
        target: the model whose law the output has.
        drafter: who proposes tokens; None for plain autoregressive decoding.
        verifier: a method's name (see `multidraft.verify.VERIFIERS`) or a `Verifier`. Default:
            "traversal", which takes any drafter.
        controller: chooses how much each round drafts. "auto" measures what is fastest, plain steps
            included (the models' costs are measured now, which takes a few seconds, and kept for
            the next time): the output has the same law, but its tokens depend on the clock, unless
            the choices are replayed. None: as much as the drafter can.

    Raises:
        InvalidInput: target and draft do not share a vocabulary or a device, the verifier is
            unknown or does not fit the drafter, a controller is unknown, is given without a
            drafter, or finds no free slot to measure with.
    """

    def __init__(
        self,
        target: LanguageModel,
        drafter: Drafter | None = None,
        verifier: str | Verifier = DEFAULT_VERIFIER,
        controller: Controller | Literal["auto"] | None = None,
    ):
        self.engine = Engine(target, drafter, verifier)  # first: it refuses what does not fit
        if controller is not None and drafter is None:
            raise InvalidInput("A controller needs a drafter to choose for; give one.")
        if isinstance(controller, str):
            if controller != "auto" or drafter is None:
                raise InvalidInput(f'Unknown controller {controller!r}; "auto" is the only name.')
            controller = AutoController(drafter, costs_of(target, drafter.model))
        self.engine.controller = controller

    @property
    def target(self) -> LanguageModel:
        return self.engine.target

    def generate(
        self,
        prompts: Prompt | Seq[Prompt],
        params: SamplingParams | Seq[SamplingParams] | None = None,
    ) -> list[Result]:
        """Decode prompts as one batch; more than the models have slots queue.

        Args:
            prompts: one prompt or a list; each is text, a list of token ids, or chat messages.
            params: for all prompts, or one per prompt. Random streams: with one for all, prompt
                i uses stream (seed, i); with a list, each uses stream (its seed, 0), the one it
                has when decoded alone.

        Returns:
            Results in the order of the prompts, ``params.n`` for each, one after the other.

        Raises:
            InvalidInput: an empty or too long prompt, or one the target cannot encode.
            InvalidLogits: a model produced logits that define no law.
        """
        encoded = [self.encode(prompt) for prompt in _as_list(prompts)]
        per_prompt = _spread(params, len(encoded))
        for tokens, (p, _) in zip(encoded, per_prompt, strict=True):
            self.engine.check(tokens, p)
        submitted: list[tuple[int, int, Sequence]] = []
        try:
            for i, (tokens, (p, key)) in enumerate(zip(encoded, per_prompt, strict=True)):
                for j in range(p.n):
                    submitted.append((i, j, self.engine.submit(tokens, p, (*key, j))))
            while any(sequence.finish_reason is None for _, _, sequence in submitted):
                self.engine.step()
        finally:
            for _, _, sequence in submitted:
                self.engine.cancel(sequence)
        return [sequence.result(i, j) for i, j, sequence in submitted]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Iterator[Piece]:
        """Decode one prompt, yielding what each round gave. Closing the iterator cancels.

        Raises:
            InvalidInput, InvalidLogits: as `submit` and `generate`.
        """
        request = self._request(prompt, params)
        self.engine.check(*request[:2])
        return self._pieces(*request)

    def submit(self, prompt: Prompt, params: SamplingParams | None = None) -> Sequence:
        """Queue one prompt and return its sequence; `Engine.step` moves it on.

        Raises:
            InvalidInput: as `generate`; also for ``params.n`` above 1.
        """
        return self.engine.submit(*self._request(prompt, params))

    def _request(
        self, prompt: Prompt, params: SamplingParams | None
    ) -> tuple[list[int], SamplingParams, tuple[int, ...]]:
        """Token ids, parameters and random stream of a prompt decoded alone."""
        params = SamplingParams() if params is None else params
        if not isinstance(params, SamplingParams):
            raise InvalidInput(f"A prompt's parameters are one SamplingParams, not {params!r}.")
        if params.n != 1:
            raise InvalidInput("A stream has one sample; use generate for n > 1.")
        (_, key) = _spread(params, 1)[0]
        return self.encode(prompt), params, (*key, 0)

    def _pieces(
        self, prompt: list[int], params: SamplingParams, key: tuple[int, ...]
    ) -> Iterator[Piece]:
        # Submitted only once the first piece is asked for: a generator that was never started
        # runs no `finally` when it is closed.
        sequence = self.engine.submit(prompt, params, key)
        given, shown, result = 0, 0, None
        try:
            while result is None:
                # Others may step the engine between two pieces, so what is new is what was not
                # yet given, whoever's step it came from.
                if sequence.finish_reason is None and given == len(sequence.output):
                    self.engine.step()
                if sequence.finish_reason is not None:
                    result = sequence.result()
                elif given == len(sequence.output):
                    continue  # still waiting for a slot
                text = "" if sequence.text is None else sequence.text.text
                new, told = slice(given, len(sequence.output)), shown
                given, shown = new.stop, len(text)
                yield Piece(text[told:], sequence.output[new], sequence.origins[new], result)
        finally:
            self.engine.cancel(sequence)

    def encode(self, prompt: Prompt) -> list[int]:
        """Token ids of a prompt: text with the tokenizer's special tokens, chat messages through
        its chat template.

        Raises:
            InvalidInput: text for a model without a tokenizer, messages without a template.
        """
        tokenizer = self.target.tokenizer
        if isinstance(prompt, Seq) and _all(prompt, Integral):
            return [int(token) for token in prompt]  # type: ignore[arg-type]
        if not isinstance(prompt, str) and not (isinstance(prompt, Seq) and _all(prompt, Mapping)):
            raise InvalidInput(
                "A prompt is text, a list of token ids, or a list of chat messages; not "
                f"{type(prompt).__name__}."
            )
        if tokenizer is None:
            raise InvalidInput("This model has no tokenizer; give the prompt as token ids.")
        if isinstance(prompt, str):
            return list(tokenizer(prompt)["input_ids"])
        if not tokenizer.chat_template:
            raise InvalidInput("The target has no chat template; give the prompt as plain text.")
        try:
            text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        except TemplateError as error:
            raise InvalidInput(
                f"The target's chat template refuses these messages ({str(error).rstrip('.')})."
            ) from error
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _all(prompt: Seq[Any], kind: type) -> bool:
    if isinstance(prompt, (str, bytes, bytearray)):
        return False  # bytes would pass for token ids
    return all(isinstance(item, kind) for item in prompt)


def _as_list(prompts: Any) -> list[Prompt]:
    """One prompt of any kind, or several, as a list of prompts."""
    if isinstance(prompts, str):
        return [prompts]
    if not isinstance(prompts, Seq) or isinstance(prompts, (bytes, bytearray)):
        raise InvalidInput(
            "Prompts are text, a list of token ids, a list of chat messages, or a list of such; "
            f"not {type(prompts).__name__}."
        )
    single = len(prompts) > 0 and isinstance(prompts[0], (Integral, Mapping))
    return [prompts] if single else list(prompts)


def _spread(
    params: SamplingParams | Seq[SamplingParams] | None, count: int
) -> list[tuple[SamplingParams, tuple[int, ...]]]:
    """Parameters and random stream of each prompt."""
    if params is None:
        params = SamplingParams()
    if isinstance(params, SamplingParams):
        seed = secrets.randbits(64) if params.seed is None else params.seed
        return [(params, (seed, i)) for i in range(count)]
    if not isinstance(params, Seq) or not _all(params, SamplingParams):
        raise InvalidInput(
            f"Parameters are SamplingParams, one for all prompts or a list; not {params!r}."
        )
    if len(params) != count:
        raise InvalidInput(
            f"{len(params)} SamplingParams for {count} prompts; give one for all, or one each."
        )
    return [(p, (secrets.randbits(64) if p.seed is None else p.seed, 0)) for p in params]
