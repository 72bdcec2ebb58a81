"""The number an answer ends on, in the ways that languages and models write it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from multidraft.bench.quality.numbers import final_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("She makes 9 * 2 = $<<9*2=18>>18.\n#### 18", "18"),
        ("#### 1,450\nThat is 3 more than 7.", "1450"),
        ("#### **-$18.50** in all, for 7 days", "-18.5"),
        ("#### __18__\n7", "18"),
        ("#### .5\n7", "0.5"),
        ("####18.\nFor 7 days.", "18"),
        ("#### 9 * 2 = 18\n7", "18"),
        ("#### Step 2: Add them\nThe answer is 18.", "18"),
        ("#### 2. Add them\n\\boxed{18}", "18"),
        ("#### **2.** Add them\n\\boxed{18}", "18"),
        ("##### 2\n\\boxed{18}", "18"),
        ("####\n2 are \\boxed{18}", "18"),
        ("We get \\boxed{18}, not 20.", "18"),
        ("$$\\boxed{\\$1{,}450.50}$$ after 2 steps", "1450.5"),
        ("\\boxed{\\text{18 eggs}} in 7 days", "18"),
        ("The answer is **18** dollars for 7 days.", "18"),
        ("The answer is 3 * 4 = 12, as 12 > 5.", "12"),
        ("First the answer is 5. No, the answer is 6, which is not 5.", "6"),
        ("16 - 3 - 4 = 9, so $18.00.", "18"),
        ("It costs $1,234,567.", "1234567"),
        ("That leaves -10", "-10"),
        ("a debt of -$10", "-10"),
        ("a debt of −10", "-10"),
        ("10 eggs-4", "4"),
        ("16-3", "3"),
        ("He walks .5 miles", "0.5"),
        ("half of 2 is 1.", "1"),
        ("18 eggs (from 16)", "16"),
    ],
)
def test_english(text, number):
    assert final_number(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "None of them.", "#### eighteen", "\\boxed{x}"])
def test_no_number(text):
    assert final_number(text) is None


@pytest.mark.parametrize(
    ("language", "text", "number"),
    [
        ("de", "Die Antwort lautet 18 Euro am Tag, 7 Tage lang.", "18"),
        ("de", "Das macht 1.450 Euro.", "1450"),
        ("de", "Das macht 18,00 €.", "18"),
        ("de", "1.234,5 km", "1234.5"),
        ("de", "1,450.50 km", "1450.5"),
        ("de", "2,125", "2125"),
        ("de", "0,125 l", "0.125"),
        ("de", "1.234.567", "1234567"),
        ("fr", "1\u202f450 euros", "1450"),
        ("fr", "3 200 euros", "3200"),
        ("fr", "La réponse est 5, pas 6.", "5"),
        ("ru", "Ответ — 5 600 рублей за 2 дня", "5600"),
        ("es", "La respuesta es 7,5.", "7.5"),
        ("sw", "Jibu ni 18, si 19", "18"),
        ("ja", "答えは18です。2個", "18"),
        ("zh", "答案是１８。共 2 步", "18"),
        ("bn", "উত্তর হল ১৮। ২", "18"),
        ("te", "సమాధానం ౧౮. ౨", "18"),
        ("th", "คำตอบคือ ๑๘ ดอลลาร์ ๒", "18"),
        ("th", "1,450", "1450"),
        ("sw", "The answer is 4, si 5", "4"),
    ],
)
def test_languages(language, text, number):
    assert final_number(text, language) == Decimal(number)
