"""Every planted fault is called BIASED at the audit's default settings."""

from __future__ import annotations

import pytest

from multidraft.audit.report import Plan
from tests.audit.faults import FAULTS
from tests.audit.pairs import audit_fault, pair_of

INVISIBLE = "bfloat16-ratio"
#: Found by what finds another one too: the same fault at other sizes or in another method.
LIKE_OTHERS = {
    "block-residual",
    "carry-dropped-k1",
    "draft-temperature-k2",
    "unlikely-dropped-tree",
}
LEAVING_THE_SUPPORT = {"bonus-from-draft", "target-without-top-p"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pairs")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(f, id=f.name, marks=pytest.mark.slow if f.name in LIKE_OTHERS else ())
        for f in FAULTS
        if f.name != INVISIBLE
    ],
)
def test_a_planted_fault_is_found(fault, folder):
    report = audit_fault(fault, pair_of(folder, fault.distance, fault.seed), Plan())
    assert report.verdict == "BIASED"
    # Only these leave the support; the others have to be found by counting.
    assert bool(report.excluded) == (fault.name in LEAVING_THE_SUPPORT)


def test_a_bias_too_small_to_see_is_not_claimed_away(folder):
    """bfloat16 ratios: a total variation of about 0.001. The report says what it could see."""
    fault = next(f for f in FAULTS if f.name == INVISIBLE)
    report = audit_fault(fault, pair_of(folder, fault.distance, fault.seed), Plan(detect=0.3))
    assert report.verdict == "LOSSLESS"
    assert 0.01 < report.detectable < 0.35
    assert report.variation.high > 0.001
