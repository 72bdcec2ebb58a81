"""The exact law of the first n tokens."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multidraft.audit.law import exact_law, logits_of_folder, warp
from multidraft.audit.testmodels import build_pair
from multidraft.errors import InvalidInput
from multidraft.sampling import SamplingParams, Warper
from tests.audit.synthetic import PROMPT, V, law_of, logits_of, setting


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    temperature=st.sampled_from([0.0, 0.4, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 3, 50]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.1, 0.7]),
)
def test_warping_is_that_of_the_product(seed, temperature, top_k, top_p, min_p):
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    logits = 2 * np.random.default_rng(seed).normal(size=(5, 12))
    laws, margins = warp(logits, setting(**options))
    warper = Warper(SamplingParams(**options), [], 12)
    for row, law, margin in zip(logits, laws, margins, strict=True):
        if margin > 1e-9:
            expected = warper.law(torch.from_numpy(row)).numpy()
            np.testing.assert_allclose(law, expected, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"top_p": 0.7}, {"top_k": 2, "temperature": 0.5}])
def test_cells_are_products_of_next_token_laws(options):
    where = setting(num_tokens=3, **options)
    law = law_of(where)
    assert law.p.sum() == pytest.approx(1, abs=1e-12)
    for tokens in itertools.product(range(V), repeat=3):
        probability, context = 1.0, list(PROMPT)
        for token in tokens:
            rows, _ = warp(logits_of(1)(np.array([context])), where)
            probability *= rows[0, token]
            context.append(token)
        cell = law.cell_of(tokens)
        if probability == 0:
            assert cell == -1
        elif len(law.cells[cell]) == 3:
            assert law.p[cell] == pytest.approx(probability, abs=1e-12)


def test_rare_contexts_stand_for_all_that_follows():
    law = law_of(setting(num_tokens=6, temperature=0.3))
    short = [i for i, cell in enumerate(law.cells) if len(cell) < 6]
    assert short
    assert law.p[short].sum() < 1e-2
    rare = law.cells[short[0]]
    assert law.cell_of((*rare, *[0] * (6 - len(rare)))) == short[0]


def test_temperature_0_is_one_cell():
    law = law_of(setting(temperature=0.0))
    assert len(law.cells) == 1
    assert law.p.tolist() == [1.0]


def test_min_p_1_and_next_to_no_temperature_are_greedy():
    greedy = law_of(setting(temperature=0.0))
    for options in ({"min_p": 1.0}, {"top_p": 1e-9}, {"temperature": 1e-310}):
        assert law_of(setting(**options)).cells == greedy.cells, options


def test_no_more_contexts_are_followed_than_allowed(monkeypatch):
    monkeypatch.setattr("multidraft.audit.law._MOST_CONTEXTS", 500)
    rows = []
    logits = logits_of(1)

    def counted(contexts):
        rows.append(len(contexts))
        return logits(contexts)

    law = exact_law(counted, PROMPT, setting(num_tokens=7, temperature=1.5))
    assert sum(rows) == 500
    assert law.p.sum() == pytest.approx(1)


@pytest.mark.parametrize("option", [{"top_k": 1}, {"min_p": 0.5}, {"top_p": 0.5}])
def test_a_cut_is_nearer_at_a_low_temperature(option):
    logits = np.array([[1.0, 0.9, 0.0]])
    _, (margin,) = warp(logits, setting(temperature=0.05, **option))
    _, (scaled,) = warp(logits / 0.05, setting(**option))
    assert margin == pytest.approx(0.05 * scaled)


def test_a_cut_within_rounding_is_refused():
    def tied(contexts):
        return np.tile([1.0, 1.0, 0.0], (len(contexts), 1))

    for option in ({"top_p": 0.2}, {"min_p": 1.0}):
        with pytest.raises(InvalidInput, match="within rounding"):
            exact_law(tied, (0, 1), setting(**option))

    with pytest.raises(InvalidInput, match="within rounding"):
        exact_law(tied, (0, 1), setting(temperature=0.0))
    with pytest.raises(InvalidInput, match="within rounding"):
        exact_law(tied, (0, 1), setting(top_k=1))


def test_a_rare_cut_within_rounding_is_not_followed():
    """Its context becomes a cell of its own: what follows cannot be judged."""
    plain = logits_of(1)

    def with_a_tie(contexts):
        logits = plain(contexts).copy()
        if contexts.shape[1] == len(PROMPT) + 3:
            logits[(contexts[:, -3:] == tied).all(1)] = 1.0
        return logits

    where = setting(num_tokens=4, top_k=3)
    untied = exact_law(plain, PROMPT, where)
    rarest = int(np.argmin(untied.p))
    tied = untied.cells[rarest][:3]
    law = exact_law(with_a_tie, PROMPT, where)
    assert tied in law.cells
    assert law.cell_of((*tied, 0)) == law.cells.index(tied)
    assert law.p.sum() == pytest.approx(1)
    assert tied not in law.next_law


def test_logits_of_a_folder_are_the_models(tmp_path):
    from transformers import AutoModelForCausalLM

    pair = build_pair(tmp_path / "pair")
    model = AutoModelForCausalLM.from_pretrained(pair.target).eval()
    contexts = np.array([[0, 1, 2, 3], [5, 4, 3, 2]])
    with torch.inference_mode():
        expected = model(torch.from_numpy(contexts)).logits[:, -1]
    logits = logits_of_folder(pair.target)(contexts)
    assert logits.dtype == np.float64
    np.testing.assert_allclose(logits, expected.numpy(), atol=1e-4)
