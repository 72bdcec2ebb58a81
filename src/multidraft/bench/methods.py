"""The methods a run can name, and what each of them needs.

    ar                      plain decoding
    auto                    lookup and trees from the draft model, as much as the controller chooses
    VERIFIER                drafts from the draft model, such as ``spectr-gbv``
    DRAFTER+VERIFIER        another drafter's trees, such as ``hybrid+traversal``, of at most K·L
                            nodes
    PEER:MODE               another engine, such as ``transformers:assisted``
    METHOD@L                with this draft length, whatever the grid says

Drafters are those of `multidraft.draft.named`, peers those of `PEERS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from multidraft.draft.named import DRAFTERS, MODEL, Proposer
from multidraft.errors import InvalidInput
from multidraft.verify import VERIFIERS, get_verifier

#: Plain autoregressive decoding, the baseline.
PLAIN = "ar"
#: This engine as its command line runs it by default.
AUTO = "auto"


@dataclass(frozen=True)
class Mode:
    """What a peer's way of decoding needs: a draft model, a draft length."""

    needs_draft: bool = False
    has_length: bool = False


_PLAIN, _LOOKUP, _DRAFT = Mode(), Mode(has_length=True), Mode(needs_draft=True, has_length=True)

#: Other engines and the ways in which they are run.
PEERS: Mapping[str, Mapping[str, Mode]] = {
    "transformers": {"plain": _PLAIN, "assisted": _DRAFT, "lookup": _LOOKUP},
    "vllm": {"plain": _PLAIN, "draft": _DRAFT, "ngram": _LOOKUP},
    # By default flashspec looks up six tokens, and where it finds none drafts two.
    "flashspec": {"auto": Mode(needs_draft=True), "draft": _DRAFT},
}


@dataclass(frozen=True)
class Method:
    """A method by its name.

    Attributes:
        name: as given, less its draft length.
        proposer: who drafts; None for plain decoding and for peers.
        verifier: the verifier's name; "" where there is none.
        peer, mode: of another engine; "" for methods of this one.
        draft_length: its own L; None for the grid's.
    """

    name: str
    proposer: Proposer | None = None
    verifier: str = ""
    peer: str = ""
    mode: str = ""
    draft_length: int | None = None

    @property
    def needs_draft(self) -> bool:
        if self.peer:
            return PEERS[self.peer][self.mode].needs_draft
        return self.name == AUTO or (self.proposer is not None and self.proposer.needs_draft)

    @property
    def has_length(self) -> bool:
        """Whether it has a draft length."""
        return PEERS[self.peer][self.mode].has_length if self.peer else self.proposer is not None

    def shapes(self, num_drafts: Sequence[int], lengths: Sequence[int]) -> list[tuple[int, int]]:
        """The (K, L) it is to run with, 0 for what it has not; those of one draft have K = 1."""
        if not self.has_length:
            return [(0, 0)]
        if self.draft_length is not None:
            lengths = [self.draft_length]
        one = (
            self.proposer is None
            or not self.proposer.uses_num_drafts
            or get_verifier(self.verifier).drafts == "one"
        )
        return [(k, length) for length in lengths for k in ([1] if one else num_drafts)]


def parse_method(name: str) -> Method:
    """A method from its name.

    Raises:
        InvalidInput: an unknown name, a verifier that does not take the drafter's trees, or a draft
            length that is none or that the method has no use for.
    """
    base, at, length = name.partition("@")
    method = _parse(base)
    if not at:
        return method
    if not method.has_length:
        raise InvalidInput(f"{name!r}: {base!r} has no draft length; leave out '@{length}'.")
    if not (length.isascii() and length.isdigit() and int(length) > 0):
        raise InvalidInput(f"{name!r}: after '@' comes a draft length, such as '{base}@3'.")
    return replace(method, draft_length=int(length))


def _parse(name: str) -> Method:
    if name in (PLAIN, AUTO):
        return Method(name)
    peer, colon, mode = name.partition(":")
    if colon and peer in PEERS:
        if mode not in PEERS[peer]:
            modes = ", ".join(f"{peer}:{each}" for each in PEERS[peer])
            raise InvalidInput(f"Unknown method {name!r}; {peer} runs as {modes}.")
        return Method(name, peer=peer, mode=mode)
    drafter, plus, verifier = name.rpartition("+")
    if (plus and drafter not in DRAFTERS) or verifier not in VERIFIERS:
        peers = "; ".join(f"{each}:MODE with {', '.join(PEERS[each])}" for each in PEERS)
        raise InvalidInput(
            f"Unknown method {name!r}; choose {PLAIN}, {AUTO}, a verifier "
            f"({', '.join(VERIFIERS)}), DRAFTER+VERIFIER (drafters: {', '.join(DRAFTERS)}), or "
            f"another engine ({peers})."
        )
    proposer = DRAFTERS[drafter] if plus else MODEL
    if proposer.drafts == "any" and VERIFIERS[verifier].drafts != "any":
        fitting = [each for each in VERIFIERS if VERIFIERS[each].drafts == "any"]
        raise InvalidInput(
            f"{name!r}: {verifier!r} does not take the trees of {drafter!r}; "
            f"{' and '.join(repr(each) for each in fitting)} do."
        )
    return Method(name, proposer, verifier)
