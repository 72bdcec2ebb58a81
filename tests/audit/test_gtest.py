"""The tests of an audit: their level, their power, and the interval of the total variation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from multidraft.audit.gtest import detectable, g_test, variation
from multidraft.audit.tables import LEAST_EXPECTED, Cells, Table
from tests.audit.synthetic import law_of, setting, shifted

SAMPLES = 6_000


@pytest.fixture(scope="module")
def law():
    return law_of(setting())


def tables(cells: Cells) -> list[Table]:
    return [
        cells.joint(SAMPLES),
        *cells.marginals(SAMPLES),
        *cells.transitions(SAMPLES),
    ]


def test_tables_are_partitions_with_enough_in_each(law):
    cells = Cells([law])
    for table in tables(cells):
        used = table.category >= 0
        assert np.bincount(table.stratum, table.q) == pytest.approx(1.0)
        reach = np.bincount(table.category[used], cells.p[used], len(table.q))
        assert (SAMPLES * reach >= 0.99 * LEAST_EXPECTED).all(), table.name
        # The exact counts are expected exactly.
        assert g_test(table, SAMPLES * cells.p).statistic == pytest.approx(0, abs=1e-6)


def test_several_prompts_are_strata(law):
    other = law_of(setting(), prompt=(3, 2, 1, 0))
    cells = Cells([law, other])
    joint = cells.joint(SAMPLES)
    assert joint.degrees == len(joint.q) - 2
    counts = np.concatenate([4_000 * law.p, 2_000 * other.p])
    assert g_test(joint, counts).statistic == pytest.approx(0, abs=1e-6)


def test_p_values_are_uniform_for_a_lossless_engine(law):
    """All tables, 400 samples: Kolmogorov-Smirnov finds nothing wrong."""
    cells = Cells([law])
    rng = np.random.default_rng(0)
    counts = rng.multinomial(SAMPLES, law.p, size=400)
    for table in tables(cells):
        p = [g_test(table, c).p_value for c in counts]
        assert stats.kstest(p, "uniform").pvalue > 1e-3, table.name
        assert np.mean(np.array(p) < 0.01) < 0.03, table.name


def test_the_detectable_bias_is_detected(law):
    """At the least favourable law of that total variation: 99%, here of 300."""
    joint = Cells([law]).joint(SAMPLES)
    level = 1e-3
    bias = detectable(joint.degrees, SAMPLES, level)
    pooled = np.bincount(joint.category, law.p)
    rng = np.random.default_rng(1)
    found = 0
    for seed in range(300):
        up = np.random.default_rng(seed).random(len(pooled)) < 0.5
        mass = pooled[up].sum()
        factor = np.where(up, 1 + bias / mass, 1 - bias / (1 - mass))
        counts = rng.multinomial(SAMPLES, law.p * factor[joint.category])
        found += g_test(joint, counts).p_value <= level
    assert found >= 288  # 297 expected; P(< 288) is about 1e-4


def test_a_point_mass_is_missed_by_chance_alone():
    assert detectable(0, 512, 1e-3) == pytest.approx(1 - 0.01 ** (1 / 512))


@pytest.mark.parametrize("bias", [0.0, 0.03, 0.1])
def test_the_interval_covers(law, bias):
    cells = Cells([law])
    joint = cells.joint(SAMPLES)
    rng = np.random.default_rng(2)
    none = np.zeros(2, dtype=int)
    covered = 0
    for seed in range(200):
        p = shifted(law, bias, seed)
        pooled = np.bincount(joint.category, p)
        true = abs(pooled - joint.q).sum() / 2
        found = variation(joint, rng.multinomial(SAMPLES // 2, p, size=2), none)
        covered += found.low <= true <= found.high
        assert found.low <= found.estimate <= found.high or found.estimate == 0
    assert covered >= 182  # 190 expected of 200


def test_excluded_answers_count_as_variation(law):
    joint = Cells([law]).joint(SAMPLES)
    halves = np.random.default_rng(3).multinomial(SAMPLES // 2 - 300, law.p, size=2)
    found = variation(joint, halves, np.array([300, 300]))
    assert found.low <= 0.1 <= found.high
    assert found.estimate == pytest.approx(0.1, abs=0.03)


def test_a_point_mass_has_clopper_pearsons_interval():
    law = law_of(setting(temperature=0.0))
    joint = Cells([law]).joint(512)
    fine = variation(joint, np.array([[256], [256]]), np.zeros(2, dtype=int))
    assert (fine.estimate, fine.low) == (0, 0)
    assert fine.high == pytest.approx(1 - 0.025 ** (1 / 512))
    wrong = variation(joint, np.array([[250], [252]]), np.array([6, 4]))
    assert wrong.low < 10 / 512 < wrong.high
