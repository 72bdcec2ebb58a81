"""A run folder: one manifest, and one line of JSON per finished generation.

``manifest.json`` says what was run and on what; ``records.jsonl`` is only ever appended to, so a
run can be killed at any moment. A last line that was cut off is dropped when the folder is opened.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One point of a run's grid.

    Attributes:
        pair: the pair's name in the configuration.
        dataset: the data set's name.
        method: "ar", a verifier ("spectr-gbv"), a drafter and its verifier ("hybrid+traversal"),
            or a peer ("transformers:assisted").
        num_drafts, draft_length: K and L; 0 where the method has none, K = 1 for methods of one
            draft and for peers that draft. Drafters of trees get K * L nodes and depth L.
        temperature: of the request.
        batch: sequences decoded together; fewer at the end of a data set, or beside failed ones.
    """

    pair: str
    dataset: str
    method: str
    num_drafts: int
    draft_length: int
    temperature: float
    batch: int = 1


@dataclass(frozen=True)
class Record:
    """One prompt decoded once in one cell.

    Attributes:
        cell: where.
        example: the prompt's id within its data set.
        repetition: 0, 1, …
        seed: of the request.
        prompt_tokens, tokens: lengths.
        rounds: per round, [draft tokens accepted, depth of the draft, tokens emitted]; the last
            round may have been cut. Empty for peers, which do not say.
        calls: per round, nodes scored in the target's call, then in each of the draft's calls.
            Empty for peers, and in runs of versions before it was recorded.
        seconds: wall-clock seconds by phase (draft, target, verify, other), prefill in target; for
            peers all in "other".
        first_token: seconds from the request to its first token.
        gaps: seconds between the following rounds.
        peak_memory: in bytes, the most GPU memory in use during this generation where the model is
            there (of a batch, all its generations), else the largest resident size of the process
            up to then.
        finish_reason: "stop" or "length".
        text: what was generated.
        block: number of the interleaved block it ran in.
        error: why it failed, else "". A failed prompt is recorded and not tried again.
    """

    cell: Cell
    example: str
    repetition: int
    seed: int
    prompt_tokens: int = 0
    tokens: int = 0
    rounds: list[list[int]] = field(default_factory=list)
    calls: list[list[int]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    first_token: float = 0.0
    gaps: list[float] = field(default_factory=list)
    peak_memory: int = 0
    finish_reason: str = ""
    text: str = ""
    block: int = 0
    error: str = ""

    @property
    def key(self) -> tuple[Cell, str, int]:
        """What makes a record: nothing is counted twice."""
        return self.cell, self.example, self.repetition

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Record:
        return cls(**{**values, "cell": Cell(**values["cell"])})
