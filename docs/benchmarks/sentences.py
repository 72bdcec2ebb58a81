"""Plain sentences out of Spec-Bench's summarisation articles, for where LM1B cannot be had.

    python docs/benchmarks/sentences.py specbench.jsonl spec-bench-sentences.txt

One sentence a line, of 12 to 40 words, two from each article, spread over it. `bench` takes the
file as `file:spec-bench-sentences.txt`: the first half of each sentence is to be continued.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

_PER_ARTICLE = 2
_WORDS = range(12, 41)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", type=Path, help="Spec-Bench's JSONL file")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    sentences: dict[str, None] = {}
    for line in args.questions.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["category"] == "summarization":
            found = sentences_of(row["turns"][0].removeprefix("Summarize:"))
            sentences |= dict.fromkeys(found[:: max(1, len(found) // _PER_ARTICLE)][:_PER_ARTICLE])
    args.out.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    print(f"{len(sentences)} sentences in {args.out}")


def sentences_of(article: str) -> list[str]:
    """Whole sentences, from a capital letter to a full stop."""
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(article.split()))
    return [p for p in parts if len(p.split()) in _WORDS and p[0].isupper() and p.endswith(".")]


if __name__ == "__main__":
    main()
