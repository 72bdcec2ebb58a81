"""What the audit makes of planted faults: docs/audits.md's table of power.

    python docs/benchmarks/audit_power.py

Run from the repository's root. Each fault is the product's own engine with one thing wrong
(tests/audit/faults.py); its exact total variation comes from enumeration, the rest from one audit
at the default settings.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from multidraft.audit.report import Plan
from tests.audit.faults import FAULTS
from tests.audit.pairs import audit_fault, pair_of
from tests.audit.test_faults import exact_report


def main() -> None:
    torch.set_num_threads(1)
    print("| fault | method, K, L, n | exact TV | verdict | samples | p | TV (95% interval) |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for fault in FAULTS:
            pair = pair_of(Path(folder), fault.distance, fault.seed)
            exact = exact_report(fault, fault.decoder, pair).total_variation
            report = audit_fault(fault, pair, Plan())
            tv = report.variation
            verdict = report.verdict
            if verdict == "LOSSLESS":
                verdict += f" (no bias above {report.detectable:.3f})"
            print(
                f"| {fault.name} | {fault.method}, {fault.num_drafts}, {fault.draft_length}, "
                f"{fault.num_tokens} | {exact:.4f} | {verdict} | {report.samples:,} of "
                f"{report.planned:,} | {report.p_value:.1g} | "
                f"{tv.estimate:.3f} ({tv.low:.3f}-{tv.high:.3f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
