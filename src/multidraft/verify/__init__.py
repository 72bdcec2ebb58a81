"""Verification: which draft tokens may stay so that the output keeps exactly the target's law.

Pure mathematics over a draft tree and laws: no models, no input or output. `VERIFIERS` maps each
method's name to its `Verifier`; a method of your own is one more `Verifier`.
"""

from multidraft.errors import InvalidInput
from multidraft.verify.base import Carry, CarryEntry, Verdict, Verifier
from multidraft.verify.blocks import traversal
from multidraft.verify.greedy import spectr_gbv
from multidraft.verify.multipath import multipath
from multidraft.verify.token_level import specinfer, spectr

VERIFIERS: dict[str, Verifier] = {
    verifier.name: verifier
    for verifier in (
        Verifier(
            "token",
            "standard speculative decoding, token by token",
            "Leviathan et al. 2023; Chen et al. 2023",
            "one",
            False,
            specinfer,
        ),
        Verifier(
            "specinfer",
            "recursive rejection over several drafts, token by token",
            "Miao et al. 2023",
            "any",
            False,
            specinfer,
        ),
        Verifier(
            "spectr",
            "K-SEQ, token by token, with a tuned division factor",
            "Sun et al. 2023",
            "iid",
            False,
            spectr,
        ),
        Verifier(
            "block",
            "block verification: the draft is judged as a whole",
            "Sun et al. 2024",
            "one",
            False,
            traversal,
        ),
        Verifier(
            "greedy-block",
            "greedy block verification, with a rewritten law carried on",
            "Sun et al. 2024, appendix",
            "one",
            True,
            spectr_gbv,
        ),
        Verifier(
            "spectr-gbv",
            "each draft greedily verified as a block, with a carry",
            "Lin et al. 2026",
            "iid",
            True,
            spectr_gbv,
        ),
        Verifier(
            "multipath",
            "the best draft by a known rule, verified as a block",
            "Thomas and Pal 2026; Hu et al. 2025",
            "iid",
            False,
            multipath,
        ),
        Verifier(
            "traversal",
            "block verification over a tree, deepest node first",
            "Weng et al. 2025",
            "any",
            False,
            traversal,
        ),
    )
}


def get_verifier(verifier: str | Verifier) -> Verifier:
    """A verifier by name; a `Verifier` is returned as it is.

    Raises:
        InvalidInput: no method has that name.
    """
    if isinstance(verifier, Verifier):
        return verifier
    if verifier not in VERIFIERS:
        raise InvalidInput(f"Unknown verifier {verifier!r}; choose one of {', '.join(VERIFIERS)}.")
    return VERIFIERS[verifier]


__all__ = [
    "VERIFIERS",
    "Carry",
    "CarryEntry",
    "Verdict",
    "Verifier",
    "get_verifier",
]
