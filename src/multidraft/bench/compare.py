"""Several methods in turn on one prompt, with the same models and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from multidraft.draft import ModelDrafter
from multidraft.engine import Decoder, Result
from multidraft.engine import Sequence as Running
from multidraft.engine.decoder import Prompt
from multidraft.errors import InvalidInput
from multidraft.models import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.verify import VERIFIERS, get_verifier

#: Plain autoregressive decoding, the baseline.
PLAIN = "ar"
_WARM_UP_TOKENS = 8  # the first rounds of a process pay for memory and kernels


@dataclass(frozen=True)
class Comparison:
    """One method's run.

    Attributes:
        method: "ar" or a verifier's name.
        num_drafts, draft_length: K and L; 0 for plain decoding.
        result: what it generated, and its figures.
        speed_up: tokens per second over those of plain decoding.
    """

    method: str
    num_drafts: int
    draft_length: int
    result: Result
    speed_up: float


def parse_methods(text: str) -> list[str]:
    """Method names from a comma-separated list, plain decoding first.

    Raises:
        InvalidInput: an unknown name, or none at all.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidInput(f"Name the methods to compare: {PLAIN}, {', '.join(VERIFIERS)}.")
    for name in names:
        if name != PLAIN:
            get_verifier(name)
    return list(dict.fromkeys([PLAIN, *names]))


def decoder_for(
    method: str,
    target: LanguageModel,
    draft: LanguageModel | None,
    num_drafts: int,
    draft_length: int,
    draft_temperature: float | None = None,
) -> Decoder:
    """A decoder for a method with drafts of fixed length; methods made for one draft get one.

    Raises:
        InvalidInput: no draft model for a method that needs one, or one that does not fit.
    """
    if method == PLAIN:
        return Decoder(target)
    if draft is None:
        raise InvalidInput(f"The method {method!r} needs a draft model.")
    count = 1 if get_verifier(method).drafts == "one" else num_drafts
    return Decoder(target, ModelDrafter(draft, count, draft_length, draft_temperature), method)


def compare(
    decoders: dict[str, Decoder],
    prompt: Prompt,
    params: SamplingParams,
    run: Callable[[Decoder, Running], Result],
) -> Iterator[Comparison]:
    """Run each decoder on the prompt, one after the other, each warmed up by a few tokens.

    Args:
        decoders: by method name, plain decoding first.
        prompt, params: the same for all.
        run: steps a submitted sequence to its end; the caller may show progress or stop early.
    """
    plain_speed = 0.0
    for method, decoder in decoders.items():
        short = replace(params, max_tokens=min(_WARM_UP_TOKENS, params.max_tokens))
        decoder.generate(prompt, short)
        result = run(decoder, decoder.submit(prompt, params))
        speed = result.stats.tokens_per_second or 0.0
        if method == PLAIN:
            plain_speed = speed
        drafter = decoder.engine.drafter
        yield Comparison(
            method,
            drafter.num_drafts if isinstance(drafter, ModelDrafter) else 0,
            drafter.draft_length if drafter else 0,
            result,
            speed / plain_speed if plain_speed else 0.0,
        )
