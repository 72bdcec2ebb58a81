"""`multidraft audit compare`: one engine on the user's own models, speculation on against off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multidraft.audit.blackbox import drafts
from multidraft.audit.law import Tokens
from multidraft.audit.samplers import ENGINES
from multidraft.audit.setting import Answer, Request, Sampler
from multidraft.audit.two_sample import TwoSampleReport, permutations_for, two_sample
from multidraft.errors import AuditError, InvalidInput

_PLAIN = {"multidraft": "ar", "transformers": "plain", "vllm": "plain"}


@dataclass(frozen=True)
class OnOffReport:
    """One engine with speculation against itself without.

    Attributes:
        on, off: names of the two runs.
        verdict: "SAME" (nothing found with all samples), "DIFFERENT", or "UNDECIDED"
            (interrupted, or too few samples to find anything).
        test: what the two-sample test found.
        alpha: the promised false-alarm rate.
        samples, planned: of each run, over all prompts.
    """

    on: str
    off: str
    verdict: str
    test: TwoSampleReport
    alpha: float
    samples: int
    planned: int


def compare_on_off(
    on: Sampler,
    off: Sampler,
    prompts: Sequence[tuple[Tokens, str]],
    samples: int,
    num_tokens: int,
    encode: Callable[[str], Tokens],
    chunk: int,
    alpha: float = 0.001,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, planned: None,
) -> OnOffReport:
    """Sample both ways and test.

    Args:
        on, off: the engine with and without speculation; not yet entered. The first is closed
            before the second starts, so that both fit where one does.
        prompts: token ids and text of each.
        samples: answers per prompt and run.
        encode: turns an answer's text into tokens, for engines that do not say them. An answer is
            cut after ``num_tokens``; one that ended early counts as it is.
        chunk: requests handed over at once.

    Raises:
        AuditError: an engine failed.
        InvalidInput: no prompts, fewer than two samples, or an alpha that cannot be tested.
    """
    permutations_for(alpha, num_tokens)
    if not prompts:
        raise InvalidInput("There is no prompt to compare on.")
    if samples < 2:
        raise InvalidInput("Two samples of each prompt are the least that can be compared.")
    planned = 2 * samples * len(prompts)
    found: list[list[list[Tokens]]] = []
    names: list[str] = []
    complete = True
    for run, sampler in enumerate((off, on)):
        answers: list[list[Tokens]] = [[] for _ in prompts]
        found.append(answers)
        total = samples * len(prompts)
        with sampler:
            names.append(sampler.name)
            try:
                for start in range(0, total, chunk):
                    numbers = range(start, min(start + chunk, total))
                    requests = [
                        # Other seeds in the second run: common random numbers would make two
                        # samples that depend on each other.
                        Request(*prompts[n % len(prompts)], seed * 1_000_003 + run * total + n)
                        for n in numbers
                    ]
                    for number, answer in zip(numbers, sampler.sample(requests), strict=True):
                        answers[number % len(prompts)].append(_read(answer, num_tokens, encode))
                    progress(run * total + numbers.stop, planned)
            except KeyboardInterrupt:
                complete = False
                if run == 0:
                    raise  # one sample alone tells nothing
    first, second = found
    # Interrupted: as many of each prompt from both.
    pairs = [(x[: len(y)], y[: len(x)]) for x, y in zip(first, second, strict=True)]
    pairs = [(x, y) for x, y in pairs if x]
    if not pairs:
        raise KeyboardInterrupt
    test = two_sample([y for _, y in pairs], [x for x, _ in pairs], alpha, seed)
    shown = complete and test.detectable < 1
    verdict = "DIFFERENT" if test.p_value <= alpha else "SAME" if shown else "UNDECIDED"
    taken = sum(len(x) for x, _ in pairs)
    return OnOffReport(names[1], names[0], verdict, test, alpha, taken, samples * len(prompts))


def _read(answer: Answer, num_tokens: int, encode: Callable[[str], Tokens]) -> Tokens:
    tokens = encode(answer) if isinstance(answer, str) else answer
    if not tokens and not isinstance(answer, str):
        raise AuditError("The engine gave an answer of no tokens.")
    return tokens[:num_tokens]


def speculation_off(engine: str) -> str:
    """The same engine without speculation.

    Raises:
        InvalidInput: the engine drafts nothing to begin with.
    """
    name = engine.partition(":")[0]
    if not drafts(engine):
        raise InvalidInput(
            f"{engine} does not speculate, so there is nothing to compare; name a mode that does: "
            f"{', '.join(m for m in ENGINES[name] if drafts(f'{name}:{m}'))}."
        )
    return f"{name}:{_PLAIN[name]}" if name in _PLAIN else name
