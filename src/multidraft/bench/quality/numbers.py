"""The number that an answer to a word problem ends on.

What counts is the first of these that is there, and the last of its kind in the text:

1. the number right after ``####``, as in GSM8K's own solutions (a Markdown heading, numbered or
   not, is none);
2. the number in ``\\boxed{…}``;
3. the number after "the answer is", in English or the question's language (`PHRASES`);
4. any number.

Where an equation is stated, its right side counts. 1 and 4 are the strict and the flexible filter
of lm-evaluation-harness's task gsm8k, 3 that of its mgsm tasks. Numbers are compared by value, so
that 18, 18.00 and ১৮ are the same; numerals in words are not read. Commas separate thousands and a
point is decimal, except in languages that write a decimal comma: there either mark separates
thousands if exactly three digits follow it, as a space does, and else is decimal.
"""

from __future__ import annotations

import re
from decimal import Decimal

#: What stands before the answer, by language.
PHRASES = {
    "bn": "উত্তর হল",
    "de": "Die Antwort lautet",
    "en": "The answer is",
    "es": "La respuesta es",
    "fr": "La réponse est",
    "ja": "答えは",
    "ru": "Ответ",
    "sw": "Jibu ni",
    "te": "సమాధానం",
    "th": "คำตอบคือ",
    "zh": "答案是",
}
_DECIMAL_COMMA = ("de", "es", "fr", "ru")

# A sign is one unless it joins two terms; a currency may stand between it and the digits.
_SIGN = r"(?P<sign>(?<![\w)\]])[-−–])?\s?[$€£¥₹৳฿]?\s?"
_POINT = re.compile(_SIGN + r"(?P<digits>\d+(?:,\d+)*(?:\.\d+)?|\.\d+)")
_COMMA = re.compile(_SIGN + r"(?P<digits>\d+(?:[.,\u00a0\u202f]\d+| \d{3}(?!\d))*)")
# Signs, a currency and markup may stand between. "#### 2. Add them" is the heading of a step.
_AFTER = r"(?:[^\w\n]|_)*"
_HASHES = rf"(?<!#)####(?!#)(?!{_AFTER}\d+[.):][*_]*[^\S\n]+\S)({_AFTER}\d[^\n]*)"
_BOXED = r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}"


def final_number(text: str, language: str = "en") -> Decimal | None:
    """The number that an answer gives, None where it has none.

    Args:
        text: the answer.
        language: of the question; one of `PHRASES`.
    """
    text = text.replace("{,}", ",").replace("\\$", "$").replace("\\,", "")
    phrase = rf"(?:{re.escape(PHRASES[language])}|{re.escape(PHRASES['en'])})(?=([^\n]*))"
    for pattern in (_HASHES, _BOXED, phrase):
        for stated in reversed(re.findall(pattern, text, re.IGNORECASE)):
            if found := _numbers(stated.rpartition("=")[2], language):
                return found[0]
    found = _numbers(text, language)
    return found[-1] if found else None


def _numbers(text: str, language: str) -> list[Decimal]:
    pattern = _COMMA if language in _DECIMAL_COMMA else _POINT
    found = []
    for match in pattern.finditer(text):
        digits = match["digits"]
        digits = _with_point(digits) if pattern is _COMMA else digits.replace(",", "")
        found.append(Decimal(digits) * (-1 if match["sign"] else 1))
    return found


def _with_point(digits: str) -> str:
    """A number of a language with a decimal comma, written as Python does.

    English ways of writing are common in such languages too, so the mark does not tell: it is for
    thousands before exactly three digits, unless another mark stands left of it or nothing but 0.
    """
    *groups, last = re.split(r"[.,\u00a0\u202f ]", digits)
    marks = re.findall(r"[.,\u00a0\u202f ]", digits)
    if not groups:
        return last
    decimal = marks[-1] in ".," and (
        len(last) != 3 or groups == ["0"] or (len(set(marks)) > 1 and marks[-1] not in marks[:-1])
    )
    whole = "".join(groups)
    return f"{whole}.{last}" if decimal else whole + last
