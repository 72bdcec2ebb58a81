"""What is recommended: only what is established."""

from __future__ import annotations

import math
import random

import pytest

from multidraft.bench.records import Cell, Record
from multidraft.bench.report.group import Row
from multidraft.bench.tune.advice import recommend, too_few
from multidraft.bench.tune.command import generate_command
from multidraft.bench.tune.figures import Figures, least_prompts
from multidraft.bench.tune.settings import AUTO, PLAIN

FIXED, OTHER = Row("spectr-gbv", 3, 4), Row("hybrid+traversal", 3, 6)


def figures(speeds, prompts=8, noise=0.02, noisy=(), trial=""):
    """Settings whose speed varies by prompt, all alike, and by chance, some of them much."""
    records = []
    for number in range(prompts):
        base = random.Random(number).uniform(5, 15)
        for row, speed in speeds.items():
            spread = 0.5 if row in noisy else noise
            chance = random.Random(f"{number} {row}{trial}").gauss(0, spread)
            cell = Cell("pair", "prompts", row.method, row.num_drafts, row.draft_length, 1.0)
            seconds = 64 / (base * speed * math.exp(chance))
            rounds = [[1, 4, 2]] * 32 if row != PLAIN else [[0, 0, 1]] * 64
            records.append(
                Record(
                    *(cell, str(number), 0, 0),
                    tokens=64,
                    rounds=rounds,
                    seconds={"draft": 0.0, "target": seconds, "verify": 0.0, "other": 0.0},
                )
            )
    return Figures(records, 64)


@pytest.mark.parametrize(
    ("speeds", "expected", "reason"),
    [
        ({FIXED: 2.0, OTHER: 1.2, AUTO: 1.5}, FIXED, "% faster than auto; both are established"),
        ({FIXED: 1.83, OTHER: 1.2, AUTO: 1.8}, AUTO, "within 2% of the best fixed setting"),
        ({FIXED: 1.3, OTHER: 1.2, AUTO: 1.8}, AUTO, "No fixed setting was faster"),
        ({FIXED: 0.7, OTHER: 0.6, AUTO: 1.0}, PLAIN, "Nothing is established"),
        ({FIXED: 0.7, OTHER: 0.6, AUTO: 1.2}, AUTO, "No fixed setting was faster"),
    ],
)
def test_recommended(speeds, expected, reason):
    advice = recommend(figures({PLAIN: 1.0, **speeds}), 8)
    assert advice.row == expected
    assert reason in advice.reason


@pytest.mark.parametrize(
    ("speeds", "noisy", "expected", "reason"),
    [
        ({FIXED: 0.7, AUTO: 1.3}, [AUTO], PLAIN, "Nothing is established"),
        ({FIXED: 1.3, AUTO: 1.0}, [FIXED], PLAIN, "Nothing is established"),
        ({FIXED: 1.6, AUTO: 1.3}, [AUTO], FIXED, "auto's gain is not"),
        ({FIXED: 1.75, AUTO: 1.3}, [FIXED], AUTO, "which is not established"),
    ],
)
def test_gains_that_may_be_chance(speeds, noisy, expected, reason):
    found = figures({PLAIN: 1.0, **speeds}, noisy=noisy)
    [row] = noisy
    ratio = found.ratio(row, PLAIN)
    assert ratio.value > 1.0 > ratio.low
    advice = recommend(found, 8)
    assert advice.row == expected and reason in advice.reason


def test_too_few_prompts():
    found = figures({PLAIN: 1.0, FIXED: 2.0, OTHER: 1.2, AUTO: 1.5}, prompts=6)
    assert math.isnan(found.ratio(FIXED, PLAIN).low)
    stopped, short = recommend(found, 12), recommend(found, 6)
    assert stopped.row == short.row == PLAIN
    assert "it takes 7, more --max-time" in stopped.reason
    assert "give 7 or more (--count 7" in short.reason and "--max-time" not in short.reason
    assert too_few(8) == "" and "give 8 or more" in too_few(7)


@pytest.mark.parametrize("settings", range(1, 9))
def test_no_fewer_prompts_than_the_level_can_bear(settings):
    least = least_prompts(settings)
    assert 2.0**-least <= 0.05 / (2 * settings) < 2.0 ** (1 - least)


def test_chance_is_rarely_called_a_gain():
    """Settings as fast as plain decoding: one is called faster in 5% of cases at most."""
    wrong, trials = 0, 120
    for trial in range(trials):
        found = figures(
            {PLAIN: 1.0, FIXED: 1.0, OTHER: 1.0, AUTO: 1.0}, prompts=7, noise=0.2, trial=trial
        )
        wrong += any(found.faster(row, PLAIN) for row in (FIXED, OTHER, AUTO))
    assert wrong <= 6


def test_more_settings_need_more_evidence():
    two, four = {PLAIN: 1.0, FIXED: 1.2}, {PLAIN: 1.0, FIXED: 1.2, OTHER: 1.0, AUTO: 1.0}
    alone, among = (figures(each, noise=0.1).ratio(FIXED, PLAIN) for each in (two, four))
    assert alone.value == among.value
    assert among.low < alone.low < alone.value < alone.high < among.high


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (PLAIN, "multidraft generate --target T --dtype float32"),
        (AUTO, "multidraft generate --target T --draft 'a b' --dtype float32"),
        (
            FIXED,
            "multidraft generate --target T --draft 'a b' -v spectr-gbv -K 3 -L 4 --dtype float32",
        ),
        (Row("block", 1, 2), "multidraft generate --target T --draft 'a b' -v block -L 2 --dtype "),
        (Row("lookup+traversal", 3, 8), "multidraft generate --target T -v lookup+traversal -K 3"),
    ],
)
def test_command(row, expected):
    assert generate_command(row, "T", ["--draft", "a b"], ["--dtype", "float32"]).startswith(
        expected
    )
