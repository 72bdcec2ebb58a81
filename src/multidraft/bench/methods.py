"""The methods a run can name, and what each of them needs.

    ar                      plain decoding
    VERIFIER                drafts from the draft model, such as ``spectr-gbv``
    DRAFTER+VERIFIER        another drafter's trees, such as ``hybrid+traversal``, of at most K·L
                            nodes
    transformers:MODE       transformers' own ``generate``: plain, assisted or lookup

Drafters are those of `multidraft.draft.named`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multidraft.bench.compare import PLAIN
from multidraft.draft.named import DRAFTERS, MODEL, Proposer
from multidraft.errors import InvalidInput
from multidraft.verify import VERIFIERS, get_verifier

#: Ways in which transformers' ``generate`` is run.
TRANSFORMERS_MODES = ("plain", "assisted", "lookup")
_TRANSFORMERS = "transformers:"


@dataclass(frozen=True)
class Method:
    """A method by its name.

    Attributes:
        name: as given.
        proposer: who drafts; None for plain decoding and for peers.
        verifier: the verifier's name; "" where there is none.
        mode: transformers' mode; "" for methods of this engine.
    """

    name: str
    proposer: Proposer | None = None
    verifier: str = ""
    mode: str = ""

    @property
    def needs_draft(self) -> bool:
        return self.mode == "assisted" or (self.proposer is not None and self.proposer.needs_draft)

    def shapes(self, num_drafts: Sequence[int], lengths: Sequence[int]) -> list[tuple[int, int]]:
        """The (K, L) it is to run with, 0 for what it has not; those of one draft have K = 1."""
        if self.mode in ("assisted", "lookup"):
            return [(1, length) for length in lengths]
        if self.proposer is None:
            return [(0, 0)]
        one = get_verifier(self.verifier).drafts == "one" or not self.proposer.uses_num_drafts
        return [(k, length) for length in lengths for k in ([1] if one else num_drafts)]


def parse_method(name: str) -> Method:
    """A method from its name.

    Raises:
        InvalidInput: an unknown name, or a verifier that does not take the drafter's trees.
    """
    if name == PLAIN:
        return Method(name)
    if name.startswith(_TRANSFORMERS):
        mode = name.removeprefix(_TRANSFORMERS)
        if mode not in TRANSFORMERS_MODES:
            raise InvalidInput(
                f"Unknown method {name!r}; transformers runs as "
                f"{', '.join(_TRANSFORMERS + each for each in TRANSFORMERS_MODES)}."
            )
        return Method(name, mode=mode)
    drafter, plus, verifier = name.rpartition("+")
    if (plus and drafter not in DRAFTERS) or verifier not in VERIFIERS:
        raise InvalidInput(
            f"Unknown method {name!r}; choose {PLAIN}, a verifier ({', '.join(VERIFIERS)}), "
            f"DRAFTER+VERIFIER (drafters: {', '.join(DRAFTERS)}), or {_TRANSFORMERS}MODE (modes: "
            f"{', '.join(TRANSFORMERS_MODES)})."
        )
    proposer = DRAFTERS[drafter] if plus else MODEL
    if proposer.drafts == "any" and VERIFIERS[verifier].drafts != "any":
        fitting = [each for each in VERIFIERS if VERIFIERS[each].drafts == "any"]
        raise InvalidInput(
            f"{name!r}: {verifier!r} does not take the trees of {drafter!r}; "
            f"{' and '.join(repr(each) for each in fitting)} do."
        )
    return Method(name, proposer, verifier)
