"""One audit from names and numbers: test models, exact law, engine, verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from multidraft.audit.alphabet import default_prompts, text_of, tokens_of
from multidraft.audit.law import exact_law, logits_of_folder
from multidraft.audit.report import Heard, Plan, Report
from multidraft.audit.run import audit
from multidraft.audit.samplers import ENGINES, open_sampler
from multidraft.audit.setting import Setting
from multidraft.audit.testmodels import Pair
from multidraft.cores import usable_cores
from multidraft.errors import InvalidInput

#: Prompts where the law is a point mass: another sample of the same prompt tells little.
_GREEDY_PROMPTS = 64
# Batches handed to each worker at once: few, so that Ctrl-C and a clear failure stop soon.
_BATCHES = 2


@dataclass(frozen=True)
class Access:
    """How an engine is reached; see `open_sampler`."""

    workers: int | None = None
    python: str | None = None
    base_url: str | None = None
    model: str | None = None
    command: str | None = None


def audit_engine(
    engine: str,
    setting: Setting,
    pair: Pair,
    plan: Plan,
    access: Access,
    progress: Callable[[Heard], None] = lambda heard: None,
) -> Report:
    """Audit an engine on a pair of test models.

    Args:
        engine: ``NAME`` or ``NAME:MODE``.
        setting: with the pair's folders as models; see `setting_of`.
        pair: the test models.
        plan: how much to sample.
        access: how the engine is reached.

    Raises:
        InvalidInput: an unknown engine or mode, an option that does not fit it, fewer tokens than
            draft length + 2, or a law that rounding could change.
        AuditError: the engine failed.
    """
    if drafts(engine):
        check_num_tokens(setting.num_tokens, setting.draft_length)
    sampler = open_sampler(
        engine,
        setting,
        workers=access.workers,
        python=access.python,
        base_url=access.base_url,
        model=access.model,
        command=access.command,
    )
    greedy = setting.temperature == 0 or setting.top_k == 1 or setting.min_p == 1
    count = _GREEDY_PROMPTS if greedy else 1
    logits_of = logits_of_folder(pair.target)
    laws = [
        exact_law(logits_of, prompt, setting)
        for prompt in default_prompts(pair.vocab_size, count, pair.seed)
    ]
    chunk = setting.batch * (access.workers or 1) * _BATCHES
    with sampler:
        return audit(sampler, setting, laws, plan, text_of, tokens_of, chunk, progress)


def check_num_tokens(num_tokens: int, draft_length: int) -> None:
    """Raises InvalidInput where a sample ends before what follows the first round shows."""
    if num_tokens < draft_length + 2:
        raise InvalidInput(
            f"{num_tokens} tokens cannot show what goes wrong after a round of {draft_length} "
            f"drafted ones; take at least {draft_length + 2}."
        )


def workers_for(engine: str) -> int | None:
    """Worker processes by default: one for each core that this process may use for engines of one
    thread; vLLM threads itself."""
    name = engine.partition(":")[0]
    return usable_cores() if name in ("multidraft", "transformers") else None


def drafts(engine: str) -> bool:
    """Whether an engine may draft; of a server or a program we cannot know that it does not."""
    return _mode(engine) not in ("ar", "plain")


def batches(engine: str) -> bool:
    """Whether an engine decodes several requests at once."""
    return not (engine.startswith("transformers") and drafts(engine))


def _mode(engine: str) -> str:
    name, _, mode = engine.partition(":")
    modes = ENGINES.get(name, ())
    return mode or (modes[0] if modes else "")
