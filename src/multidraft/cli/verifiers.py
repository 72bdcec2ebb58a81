"""`multidraft verifiers`."""

from __future__ import annotations

import typer

_DRAFTS = {"one": "one draft", "iid": "independent drafts", "any": "any draft tree"}


def verifiers() -> None:
    """List the verification methods, a line each, with their references."""
    from multidraft.verify import VERIFIERS

    for verifier in VERIFIERS.values():
        typer.echo(
            f"{verifier.name:<13} {verifier.summary} ({_DRAFTS[verifier.drafts]}); "
            f"{verifier.reference}"
        )
