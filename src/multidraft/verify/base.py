"""What every verifier takes and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from multidraft.chance import Chance
from multidraft.tree import DraftTree

#: node -> the target's law [V] of the token after it, warped as the request asks.
LawOf = Callable[[int], torch.Tensor]


class CarryEntry(NamedTuple):
    """One pending rewrite of the target's law (Sun et al. 2024, appendix; see verify/greedy.py).

    Attributes:
        log_weight: log W of the prefix emitted so far.
        left: positions it still covers, the next one included.
    """

    log_weight: float
    left: int


#: Pending rewrites, oldest first. Empty for memoryless verifiers.
Carry = tuple[CarryEntry, ...]


class Verdict(NamedTuple):
    """Outcome of one round: it emits the tokens of ``path`` and then ``token``.

    Attributes:
        path: accepted nodes, from below the root.
        token: one more token, drawn from the target's (residual) law after the path.
        carry: pending rewrites after ``token``.
    """

    path: list[int]
    token: int
    carry: Carry = ()


VerifyFunction = Callable[[DraftTree, LawOf, Chance, Carry], Verdict]


@dataclass(frozen=True)
class Verifier:
    """A verification method: a pure function and what it needs.

    Attributes:
        name: as users write it.
        summary: one line.
        reference: the publication it comes from.
        drafts: "one" chain, several "iid" chains, or "any" tree.
        greedy: keeps a carry between rounds; its drafter must stay the same while one lives.
        function: ``(tree, target law of node, chance, carry) -> Verdict``.
    """

    name: str
    summary: str
    reference: str
    drafts: Literal["one", "iid", "any"]
    greedy: bool
    function: VerifyFunction

    def __call__(
        self, tree: DraftTree, target_law: LawOf, chance: Chance, carry: Carry = ()
    ) -> Verdict:
        return self.function(tree, target_law, chance, carry)
