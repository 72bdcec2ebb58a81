"""What may be lost on asking a draft that is new, or has not been worth it lately."""

from __future__ import annotations

import math

#: Rounds of a new pair in which the draft is asked whatever comes of it: fewer say too little.
_TRIALS = 10
#: Tokens that plain decoding would have been ahead by when they end sooner.
_TRIAL_LOSS = 6.0
#: Share of the time that may be lost on asking a draft that has not been worth it lately; of the
#: time in which it was asked, no more than so many plain steps: hours of good drafts are no licence
#: for minutes of bad ones.
_SHARE, _SAVED = 0.01, 5.0


class Exploration:
    """The trials of a new pair, and the time saved up for probes later on."""

    def __init__(self) -> None:
        self._lost = 0.0  # tokens by which plain decoding would have been ahead of the trials
        self._allowed = 0.0  # seconds that may be lost on probes

    def on_trial(self, rounds: int) -> bool:
        """Whether the draft, asked in so many rounds, is asked whatever it has given."""
        return rounds < _TRIALS and self._lost < _TRIAL_LOSS

    def allows(self, seconds: float) -> bool:
        """Whether a probe that is expected to lose so much may be made."""
        return seconds <= self._allowed

    def lost(self, tokens: float) -> None:
        """A round with the draft gave so many tokens less than plain decoding in its time."""
        self._lost += tokens

    def saved(self, seconds: float, plain: float, asked: bool, probe: float) -> None:
        """After a round.

        Args:
            seconds: that it took.
            plain: seconds of a plain step.
            asked: whether it had the draft.
            probe: seconds that it lost, where it was a probe.
        """
        most = max(self._allowed, _SAVED * plain) if asked else math.inf
        self._allowed = min(most, self._allowed + _SHARE * seconds - probe)
