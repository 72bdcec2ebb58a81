"""`audit verifiers`: the table, and the bounds beside it."""

from __future__ import annotations

import pytest

from multidraft.audit import proof
from multidraft.audit.bounds import paper_closed_form, per_level_bound
from multidraft.verify import VERIFIERS
from tests.audit.laws import GOLDEN, parse
from tests.audit.test_exact import dropping_the_carry, variant


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_bounds_are_the_golden_ones(case):
    shape = (
        parse(case["target"]),
        parse(case["draft"]),
        case["num_drafts"],
        case["draft_length"],
    )
    assert per_level_bound(*shape) == pytest.approx(case["reference"]["per_level_bound"], abs=1e-9)
    closed = case["reference"]["paper_closed_form"]
    assert paper_closed_form(*shape) == pytest.approx(closed, abs=1e-9)


def test_every_verifier_is_exact_and_below_the_bound():
    proofs = list(proof.prove(proof.CASES[:1]))
    assert [p.verifier for p in proofs] == list(VERIFIERS)
    for p in proofs:
        assert p.exact
        assert p.accepted <= p.bound + 1e-9


def test_a_wrong_verifier_is_not_exact(monkeypatch):
    wrong = variant("spectr-gbv", dropping_the_carry)
    monkeypatch.setattr(proof, "VERIFIERS", {wrong.name: wrong})
    assert [p.exact for p in proof.prove(proof.CASES[:1])] == [False]
