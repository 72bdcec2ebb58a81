"""Which recorded texts are scored, where, and what their tokens were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from multidraft.bench.methods import PLAIN, parse_method
from multidraft.bench.records import Record
from multidraft.bench.theory.acceptance import SPECINFER, SPECTR

#: Methods whose rounds accept the first draft token with the probability that theory gives, and its
#: kind there: they judge it alone, and by the target's own law.
COMPARABLE: Mapping[str, str] = {"token": SPECINFER, "specinfer": SPECINFER, "spectr": SPECTR}

_CUT = "\ufffd"  # what a character reads as whose last bytes did not come
_LONGEST_CUT = 3  # tokens it may take: UTF-8 has at most 4 bytes a character


def whole_method(methods: Sequence[str], records: Iterable[Record]) -> str:
    """The method whose texts are scored at every place: plain decoding, else the first of this
    engine. The texts of all have the target's law.

    Args:
        methods: of the run, in its order.
        records: with rounds, as this engine's have.
    """
    there = {record.cell.method for record in records}
    names = [parse_method(method).name for method in methods]  # records leave '@L' out
    return PLAIN if PLAIN in names else next((name for name in names if name in there), PLAIN)


def round_starts(record: Record) -> Iterator[tuple[int, bool]]:
    """Rounds that drafted: tokens of the answer before each, and whether it accepted any."""
    position = 0
    for accepted, depth, emitted in record.rounds:
        if depth > 0:
            yield position, accepted > 0
        position += emitted


def answer_tokens(tokenizer: Any, record: Record) -> list[int] | None:
    """The answer's tokens, from its text; None where these are certainly others.

    Records hold text, and text can have several token sequences: where the number of tokens is not
    the recorded one, places in it would be wrong. An end token is not in the text, and of a
    character cut off at the end nothing can be told, nor of the token before it.
    """
    text = record.text.rstrip(_CUT)
    tokens: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    missing = record.tokens - (record.finish_reason == "stop") - len(tokens)
    if text == record.text:
        return tokens if missing == 0 else None
    return tokens[:-1] if 1 <= missing <= _LONGEST_CUT else None


def usable(records: Iterable[Record]) -> list[Record]:
    """Records whose texts were drawn, by this engine.

    Greedy decoding is left out: its target's law is a point mass, where all there is to know is
    whether the draft names the token.
    """
    return [r for r in records if not r.error and r.rounds and r.cell.temperature > 0]
