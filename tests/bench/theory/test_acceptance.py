"""The formulas against the verifiers' own code, enumerated, and against linear programs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from multidraft.audit.bounds import per_level_bound
from multidraft.audit.exact import analyse, analyse_rounds, model_of
from multidraft.bench.theory.acceptance import HYBRID, KINDS, OPTIMUM, acceptance
from multidraft.draft import HybridTreeDrafter
from multidraft.draft.growth import likeliest_tokens, outside
from multidraft.verify.token_level import k_seq
from tests.audit.laws import random_laws

EXACT = 1e-10


def _laws(seed, vocab_size, zeros=0.2):
    """Of the target (two levels of it) and of the draft."""
    rng = np.random.default_rng(seed)
    return random_laws(rng, vocab_size, 1, zeros), random_laws(rng, vocab_size, 0, zeros)


def _acceptance(target, draft, most):
    return acceptance(torch.as_tensor(target[()]), torch.as_tensor(draft[()]), most)


def _most_accepted(q, drafts):
    """The most any verifier accepts: drafts are (probability, tokens), the output has law q.

    A linear program over the joint law of the drafts and of an output that is among them.
    """
    pairs = [(i, y) for i, (_, tokens) in enumerate(drafts) for y in sorted(set(tokens))]
    rows = np.zeros((len(drafts) + len(q), len(pairs)))
    for column, (i, y) in enumerate(pairs):
        rows[i, column] = rows[len(drafts) + y, column] = 1.0
    limits = [*(p for p, _ in drafts), *q]
    done = linprog(-np.ones(len(pairs)), A_ub=rows, b_ub=limits, method="highs-ds")
    assert done.success
    return -done.fun


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("verifier", ["specinfer", "spectr"])
@pytest.mark.parametrize(("vocab_size", "most"), [(2, 4), (5, 3)])
def test_verifiers_accept_what_the_formula_says(verifier, vocab_size, most, seed):
    target, draft = _laws(seed, vocab_size)
    found = _acceptance(target, draft, most)[verifier]
    for k in range(1, most + 1):
        report = analyse(verifier, target, draft, k, 1)
        assert found[k - 1] == pytest.approx(report.expected_accepted, abs=EXACT)
        assert report.max_error < EXACT


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("verifier", ["specinfer", "traversal"])
def test_hybrid_trees_accept_their_optimum(verifier, seed):
    target, draft = _laws(seed, 5)
    found = _acceptance(target, draft, 5)[HYBRID]
    for k in range(1, 6):
        drafter = HybridTreeDrafter(model_of(draft), draft_length=1, widths=[k])
        report = analyse_rounds(verifier, model_of(target), drafter, [1], 2)
        assert found[k - 1] == pytest.approx(report.expected_accepted, abs=EXACT)
        law = torch.as_tensor(draft[()])
        chosen = likeliest_tokens(law, k - 1)
        tail = outside(law, chosen)
        drafts = [(1.0, chosen)]
        if tail is not None:
            drafts = [(float(tail[x]), [*chosen, x]) for x in range(5)]
        assert found[k - 1] == pytest.approx(_most_accepted(target[()], drafts), abs=EXACT)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("vocab_size", "most"), [(3, 5), (6, 3)])
def test_optimum_is_that_of_the_linear_program(vocab_size, most, seed):
    target, draft = _laws(seed, vocab_size)
    q, p = target[()], draft[()]
    found = _acceptance(target, draft, most)[OPTIMUM]
    for k in range(1, most + 1):
        drafts = [
            (float(np.prod(p[list(tokens)])), tokens)
            for tokens in itertools.product(range(vocab_size), repeat=k)
        ]
        assert found[k - 1] == pytest.approx(_most_accepted(q, drafts), abs=EXACT)
        assert found[k - 1] == pytest.approx(per_level_bound(target, draft, k, 1), abs=EXACT)


@pytest.mark.parametrize("sharpness", [0.5, 4.0, 40.0])
def test_a_large_vocabulary(sharpness):
    """Against sums over the vocabulary, at temperatures where most tokens all but vanish."""
    rng, most = np.random.default_rng(0), 7
    logits = rng.normal(size=(2, 20_000))
    logits[1] += logits[0]
    target, draft = torch.softmax(torch.as_tensor(sharpness * logits), 1)
    found = acceptance(target, draft, most)
    law, rejected = target, 1.0
    for k in range(1, most + 1):
        rejected *= 1.0 - float(torch.minimum(law, draft).sum())
        law = (law - draft).clamp(min=0)
        law = law / law.sum()
        assert found["specinfer"][k - 1] == pytest.approx(1 - rejected, abs=EXACT)
        rho, any_accepted = k_seq(target, draft, k)
        shared = float(torch.minimum(draft, target / rho).sum())
        assert found["spectr"][k - 1] == pytest.approx(shared * any_accepted, abs=EXACT)
        chosen = likeliest_tokens(draft, k - 1)
        tail = outside(draft, chosen)
        reached = float(target[chosen].sum()) + float(torch.minimum(target, tail).sum())
        assert found[HYBRID][k - 1] == pytest.approx(reached, abs=EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_what_bounds_what(seed):
    target, draft = (law[()] for law in _laws(seed, 40, zeros=0.5))
    found = acceptance(torch.as_tensor(target), torch.as_tensor(draft), 7)
    overlap = np.minimum(target, draft).sum()
    for kind in KINDS:
        assert found[kind][0] == pytest.approx(overlap, abs=EXACT)
        assert found[kind] == sorted(found[kind])
    for other in ("specinfer", "spectr"):
        assert all(a <= b + EXACT for a, b in zip(found[other], found[OPTIMUM], strict=True))


@pytest.mark.parametrize(
    ("target", "draft", "expected"),
    [
        ([0.3, 0.7], [0.3, 0.7], [1.0, 1.0, 1.0]),
        ([1.0, 0.0], [0.0, 1.0], [0.0, 0.0, 0.0]),
        ([1.0], [1.0], [1.0, 1.0, 1.0]),
    ],
)
def test_laws_that_agree_or_have_nothing_in_common(target, draft, expected):
    found = acceptance(*(torch.tensor(law, dtype=torch.float64) for law in (target, draft)), 3)
    for kind in ("optimum", "spectr", "specinfer"):
        assert found[kind] == pytest.approx(expected)


def test_chosen_tokens_reach_what_the_draft_never_draws():
    laws = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    assert acceptance(*laws, 3)[HYBRID] == [0.0, 0.0, 1.0]  # K = 2 chooses token 0, no tail left
