"""Several methods in turn on one prompt, with the same models and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from multidraft.bench.methods import PLAIN, Method, parse_method
from multidraft.draft import ModelDrafter
from multidraft.draft.named import DRAFTERS
from multidraft.engine import Decoder, Result
from multidraft.engine import Sequence as Running
from multidraft.engine.decoder import Prompt
from multidraft.errors import InvalidInput
from multidraft.models import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.verify import VERIFIERS, get_verifier

_WARM_UP_TOKENS = 8  # the first rounds of a process pay for memory and kernels


@dataclass(frozen=True)
class Comparison:
    """One method's run.

    Attributes:
        method: "ar", a verifier, or a drafter and its verifier.
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
            drafted_method(name)
    return list(dict.fromkeys([PLAIN, *names]))


def drafted_method(name: str) -> Method:
    """A method of this engine that drafts: a verifier, or DRAFTER+VERIFIER (see
    `multidraft.bench.methods`).

    Raises:
        InvalidInput: an unknown name, or a verifier that does not take the drafter's trees.
    """
    if name in DRAFTERS:
        raise InvalidInput(f"{name!r} is a drafter; name its verifier too: '{name}+traversal'.")
    drafter, plus, verifier = name.rpartition("+")
    if plus and verifier not in VERIFIERS:
        raise InvalidInput(
            f"{name!r}: after '+' comes a verifier, such as '{drafter or 'hybrid'}+traversal'."
        )
    get_verifier(verifier)
    return parse_method(name)


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
        InvalidInput: no draft model for a method that needs one, one that does not fit, or a draft
            temperature for drafts that are not independent.
    """
    if method == PLAIN:
        return Decoder(target)
    parsed = drafted_method(method)
    assert parsed.proposer is not None
    if draft is None and parsed.needs_draft:
        raise InvalidInput(f"The method {method!r} needs a draft model.")
    [(count, length)] = parsed.shapes([num_drafts], [draft_length])
    if draft_temperature is None:
        drafter = parsed.proposer.make(draft, count, length)
    elif "+" in method or draft is None:
        raise InvalidInput(
            f"A draft temperature is for independent drafts, not for {method!r}; leave it out."
        )
    else:
        drafter = ModelDrafter(draft, count, length, draft_temperature)
    return Decoder(target, drafter, parsed.verifier)


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
