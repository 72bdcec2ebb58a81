"""Figures of one sequence."""

from __future__ import annotations

from dataclasses import dataclass, field

PHASES = ("draft", "target", "verify", "other")


@dataclass
class Stats:
    """What one sequence cost and gained.

    Attributes:
        rounds: rounds it took part in.
        target_calls: scoring calls of the target it took part in, prefill not counted.
        tokens: tokens emitted and kept.
        drafted: tokens proposed, all drafts of all rounds.
        accepted: draft tokens kept.
        seconds: wall-clock seconds by phase. Time of a call that served several sequences is
            shared equally among them, so the figures of a batch add up to its wall-clock time.
        full_rounds, full_tokens: rounds that had room for the full draft length and that nothing
            cut, and the tokens they emitted; the figures below are taken over these alone.
        accepted_fractions: sum of accepted tokens / draft length over them; None where a controller
            chooses how much is drafted, so that there is no such length.
    """

    rounds: int = 0
    target_calls: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    full_rounds: int = 0
    full_tokens: int = 0
    accepted_fractions: float | None = 0.0

    @property
    def block_efficiency(self) -> float | None:
        """Tokens per target call over full rounds; None before the first."""
        return self.full_tokens / self.full_rounds if self.full_rounds else None

    @property
    def acceptance_rate(self) -> float | None:
        """Mean of accepted tokens / draft length over full rounds, those included in which the
        drafter found nothing; None without a draft, or where a controller chooses the length."""
        if not self.full_rounds or not self.drafted or self.accepted_fractions is None:
            return None
        return self.accepted_fractions / self.full_rounds

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens over all wall-clock seconds, prefill included."""
        return self.tokens / self.total_seconds if self.total_seconds > 0 else None

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "rounds": self.rounds,
            "target_calls": self.target_calls,
            "tokens": self.tokens,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "block_efficiency": self.block_efficiency,
            "acceptance_rate": self.acceptance_rate,
            "tokens_per_second": self.tokens_per_second,
            "seconds": dict(self.seconds),
        }
