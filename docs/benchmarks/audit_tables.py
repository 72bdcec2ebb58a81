"""Markdown tables of suites, for docs/audits.md.

multidraft audit suite ENGINE --json > FILE.json
python docs/benchmarks/audit_tables.py FILE.json ...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def row(entry: dict[str, Any]) -> str:
    if entry["verdict"] == "FAILED":
        return f"| {entry['name']} | FAILED | | | | | {entry['error']} |"
    tv = entry["total_variation"]
    note = ""
    if entry["excluded"]:
        note = f"{sum(e['count'] for e in entry['excluded'])} excluded answers"
    return (
        f"| {entry['name']} | {entry['verdict']} | {entry['p_value']:.2g} "
        f"| {tv['estimate']:.3f} ({tv['low']:.3f}-{tv['high']:.3f}) | {entry['detectable']:.3f} "
        f"| {entry['samples']:,} in {entry['seconds']:.0f} s | {note} |"
    )


def main() -> None:
    for file in sys.argv[1:]:
        entries = json.loads(Path(file).read_text())
        names = {e["engine"] for e in entries if e["verdict"] != "FAILED"}
        print(f"\n{', '.join(sorted(names)) or Path(file).stem}\n")
        print("| setting | verdict | p | TV (95% interval) | catches | samples | |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for entry in entries:
            print(row(entry))


if __name__ == "__main__":
    main()
