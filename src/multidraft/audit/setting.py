"""What is audited, and the one thing an engine must do for it: answer requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from multidraft.sampling import SamplingParams


@dataclass(frozen=True)
class Setting:
    """One configuration of models, sampling and drafting.

    Attributes:
        target, draft: model folders; no draft for engines that need none.
        temperature, top_p, top_k, min_p: as in `SamplingParams`.
        num_tokens: n, the number of tokens of each sample.
        num_drafts, draft_length: K and L, for engines that draft.
        batch: requests the engine is given at once.
    """

    target: Path
    draft: Path | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    num_tokens: int = 5
    num_drafts: int = 3
    draft_length: int = 3
    batch: int = 64
    params: SamplingParams = field(init=False, compare=False)

    def __post_init__(self) -> None:
        params = SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            max_tokens=self.num_tokens,
            ignore_eos=True,
        )
        object.__setattr__(self, "params", params)


@dataclass(frozen=True)
class Request:
    """One sample that is asked for.

    Attributes:
        tokens: the prompt's token ids.
        text: the same prompt as text, for engines that take no ids.
        seed: of this request alone; no two requests of an audit share one.
    """

    tokens: tuple[int, ...]
    text: str
    seed: int


#: The tokens of one answer, or its text from an engine that does not say the tokens.
Answer = tuple[int, ...] | str


class Sampler(Protocol):
    """An engine as the audit sees it. Used as a context manager; leaving it frees the engine.

    Attributes:
        name: the engine, its version and mode, as shown to the user.
    """

    @property
    def name(self) -> str: ...

    def __enter__(self) -> Sampler: ...

    def __exit__(self, *exception: object) -> None: ...

    def sample(self, requests: Sequence[Request]) -> list[Answer]:
        """One answer per request, in their order, ``num_tokens`` tokens each.

        Raises:
            AuditError: the engine failed or does not answer as it should.
        """
        ...
