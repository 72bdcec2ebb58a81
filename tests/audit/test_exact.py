"""Every verifier is lossless, exactly: all drafts, all random outcomes, to rounding."""

from __future__ import annotations

import dataclasses
import importlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multidraft.audit.branches import outcomes
from multidraft.audit.exact import analyse, analyse_rounds, model_of
from multidraft.draft import ModelDrafter
from multidraft.draft.base import DraftRequest
from multidraft.errors import InvalidInput
from multidraft.tree import ROOT, DraftTree
from multidraft.verify import VERIFIERS, Verdict, Verifier
from tests.audit.laws import GOLDEN, parse, prefixes, random_laws

EXACT = 1e-12
ZEROS = ((0.0, 0.0), (0.0, 0.4), (0.4, 0.0), (0.4, 0.4))  # shares in a target's and a draft's laws
FEW_SETS = {"v2l2k2s11", "v3l2k2s12", "v4l2k2s14", "v3l2k2s301", "v2l3k3s15"}


@pytest.mark.parametrize("name", VERIFIERS)
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_values(case, name):
    report = analyse(
        name,
        parse(case["target"]),
        parse(case["draft"]),
        case["num_drafts"],
        case["draft_length"],
    )
    assert report.max_error < EXACT
    assert report.expected_accepted == pytest.approx(
        case["expected_accepted_drafts"][name], abs=1e-9
    )


@st.composite
def small_cases(draw):
    """V 2–4, K 1–3, L 1–3, no more than 4096 sets of drafts, zeros in both laws."""
    vocab_size = draw(st.integers(2, 4))
    shapes = [(k, n) for k in (1, 2, 3) for n in (1, 2, 3) if vocab_size ** (k * n) <= 4096]
    num_drafts, draft_length = draw(st.sampled_from(shapes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    target = random_laws(rng, vocab_size, draft_length, draw(st.sampled_from([0.0, 0.4])))
    draft = random_laws(rng, vocab_size, draft_length, draw(st.sampled_from([0.0, 0.4])))
    return target, draft, num_drafts, draft_length


@pytest.mark.parametrize("name", VERIFIERS)
def test_random_laws(name):
    """One of each shape with no more than 729 sets of drafts, most with zeros."""
    shapes = [(v, k, n) for v in (2, 3, 4) for k in (1, 2, 3) for n in (1, 2, 3)]
    few = [(v, k, n) for v, k, n in shapes if v ** (k * n) <= 729]
    assert len(few) == 23
    for seed, (vocab_size, num_drafts, draft_length) in enumerate(few):
        rng = np.random.default_rng(seed)
        zeros = ZEROS[seed % len(ZEROS)]
        target, draft = (random_laws(rng, vocab_size, draft_length, share) for share in zeros)
        assert analyse(name, target, draft, num_drafts, draft_length).max_error < EXACT


@pytest.mark.parametrize(("num_drafts", "draft_length"), [(5, 1), (8, 1), (4, 2)])
@pytest.mark.parametrize("name", VERIFIERS)
def test_many_drafts(name, num_drafts, draft_length):
    rng = np.random.default_rng(num_drafts)
    target, draft = (random_laws(rng, 2, draft_length, 0.0) for _ in range(2))
    assert analyse(name, target, draft, num_drafts, draft_length).max_error < EXACT


@pytest.mark.parametrize(
    "case",
    [
        # The others have hundreds of sets of drafts and more.
        pytest.param(c, id=c["name"], marks=() if c["name"] in FEW_SETS else pytest.mark.slow)
        for c in GOLDEN
    ],
)
def test_multipath_with_unlikely_tokens_in_another_order(case, monkeypatch):
    """As lossless, but it accepts less or as much."""
    laws = parse(case["target"]), parse(case["draft"])
    sizes = case["num_drafts"], case["draft_length"]
    best = case["expected_accepted_drafts"]["multipath"]
    monkeypatch.setattr(importlib.import_module("multidraft.verify.multipath"), "_SORTED_FROM", 0.3)
    report = analyse("multipath", *laws, *sizes)
    assert report.max_error < EXACT
    assert report.expected_accepted <= best + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", VERIFIERS)
@settings(max_examples=300, deadline=None)
@given(case=small_cases())
def test_many_random_laws(name, case):
    assert analyse(name, *case).max_error < EXACT


# multipath is left out: it verifies the law of its pick, which is not the draft's.
@pytest.mark.parametrize("name", [name for name in VERIFIERS if name != "multipath"])
def test_draft_equal_to_target_is_always_accepted(name):
    laws = random_laws(np.random.default_rng(1), 3, 2, zeros=0.3)
    report = analyse(name, laws, laws, 2, 2)
    assert report.max_error < EXACT
    assert report.expected_accepted == pytest.approx(2.0, abs=1e-9)


@pytest.mark.parametrize("name", VERIFIERS)
def test_disjoint_supports_accept_nothing(name):
    target = {prefix: [0.6, 0.4, 0.0] for prefix in prefixes(3, 1)}
    draft = {prefix: [0.0, 0.0, 1.0] for prefix in prefixes(3, 1)}
    report = analyse(name, target, draft, 2, 1)
    assert report.expected_accepted == 0.0
    assert report.max_error < EXACT


def test_one_draft_makes_the_families_agree():
    """K = 1: specinfer is token, traversal and multipath are block, spectr-gbv is greedy-block."""
    rng = np.random.default_rng(5)
    target, draft = random_laws(rng, 3, 3), random_laws(rng, 3, 3)
    gain = {name: analyse(name, target, draft, 1, 3).expected_accepted for name in VERIFIERS}
    assert gain["specinfer"] == pytest.approx(gain["token"], abs=1e-12)
    assert gain["spectr"] == pytest.approx(gain["token"], abs=1e-12)
    assert gain["traversal"] == pytest.approx(gain["block"], abs=1e-12)
    assert gain["multipath"] == pytest.approx(gain["block"], abs=1e-12)
    assert gain["spectr-gbv"] == pytest.approx(gain["greedy-block"], abs=1e-12)
    assert gain["token"] < gain["block"] < gain["greedy-block"]


def test_drafts_of_one_token_make_spectr_gbv_specinfer():
    rng = np.random.default_rng(6)
    target, draft = random_laws(rng, 4, 1), random_laws(rng, 4, 1)
    gbv, specinfer = (analyse(n, target, draft, 3, 1) for n in ("spectr-gbv", "specinfer"))
    assert gbv.expected_accepted == pytest.approx(specinfer.expected_accepted, abs=1e-12)


@pytest.mark.parametrize("lengths", [(2, 2), (2, 1), (1, 2), (2, 0, 2)], ids=str)
@pytest.mark.parametrize("name", VERIFIERS)
def test_carry_is_right_when_drafted_against(name, lengths):
    """Rounds in a row, the later ones drafted while a carry lives, also with L changing."""
    rng = np.random.default_rng(7)
    positions = 4
    target, draft = random_laws(rng, 2, 7), random_laws(rng, 2, 7)
    num_drafts = 1 if VERIFIERS[name].drafts == "one" else 2
    report = analyse_rounds(
        name, model_of(target), ModelDrafter(model_of(draft), num_drafts, 2), lengths, positions
    )
    assert report.max_error < EXACT


@pytest.mark.parametrize("name", ["greedy-block", "spectr-gbv"])
def test_carry_survives_a_truncated_draft(name):
    """A draft with zeros emits residual tokens of p(x) = 0, where all live entries end."""
    rng = np.random.default_rng(11)
    target, draft = random_laws(rng, 3, 5, zeros=0.2), random_laws(rng, 3, 5, zeros=0.5)
    num_drafts = 1 if name == "greedy-block" else 2
    report = analyse_rounds(
        name, model_of(target), ModelDrafter(model_of(draft), num_drafts, 2), (2, 2), 3
    )
    assert report.max_error < EXACT


@pytest.mark.slow
def test_carry_of_three_long_rounds():
    rng = np.random.default_rng(8)
    target, draft = random_laws(rng, 2, 9), random_laws(rng, 2, 9)
    report = analyse_rounds(
        "spectr-gbv", model_of(target), ModelDrafter(model_of(draft), 2, 3), (3, 2, 1), 5
    )
    assert report.max_error < EXACT


# ---------------------------------------------------------------- the tests can fail


def dropping_the_carry(tree, laws, chance, carry) -> Verdict:
    return VERIFIERS["spectr-gbv"].function(tree, laws, chance, ())._replace(carry=())


def grouping_duplicates(tree, laws, chance, carry) -> Verdict:
    """Traversal with equal siblings moved together: the trap of section 3."""
    grouped = dataclasses.replace(
        tree,
        entries=[
            sorted(entries, key=lambda e, all_=entries: [x.node for x in all_].index(e.node))
            for entries in tree.entries
        ],
    )
    return VERIFIERS["traversal"].function(grouped, laws, chance, carry)


def variant(of: str, function) -> Verifier:
    return dataclasses.replace(VERIFIERS[of], name=function.__name__, function=function)


def golden(name: str):
    case = next(case for case in GOLDEN if case["name"] == name)
    return parse(case["target"]), parse(case["draft"]), case["num_drafts"], case["draft_length"]


def test_a_dropped_carry_is_seen():
    wrong = variant("spectr-gbv", dropping_the_carry)
    assert analyse(wrong, *golden("v3l2k3s226")).max_error > 1e-3


def test_grouped_duplicates_are_seen():
    wrong = variant("traversal", grouping_duplicates)
    assert analyse(wrong, *golden("v3l2k3s226")).max_error > 1e-5
    # With two drafts grouping changes nothing, as the text says.
    assert analyse(wrong, *golden("v3l2k2s12")).max_error < EXACT


# ---------------------------------------------------------------- trees that are not i.i.d.


class RootHybrid:
    """Section 7 at the root (one drawn from the tail, then the likeliest chosen), chains below."""

    drafts = "any"
    model = None

    def __init__(self, laws, width, draft_length):
        self.laws, self.width, self.draft_length = laws, width, draft_length
        self.max_nodes = width * draft_length

    def open(self, prompt, params, vocab_size):
        return 0

    def close(self, handle):
        pass

    def propose(self, requests):
        return [self._tree(request) for request in requests]

    def _tree(self, request: DraftRequest) -> DraftTree:
        tree = DraftTree.rooted_at(request.tokens[-1])
        tree.chains = None
        if request.draft_length == 0:
            return tree
        law = self._law(tree, ROOT)
        likeliest = sorted(range(law.numel()), key=lambda t: (-float(law[t]), t))
        chosen = likeliest[: self.width - 1]
        tail = law.clone()
        tail[chosen] = 0
        if float(tail.sum()) > 0:
            tail = tail / tail.sum()
            tree.add(ROOT, request.chance.draw(tail), tail)
        for token in chosen:
            tree.add(ROOT, token, None)
        frontier = list(range(1, len(tree)))
        for _ in range(request.draft_length - 1):
            laws = [self._law(tree, node) for node in frontier]
            frontier = [
                tree.add(node, request.chance.draw(law), law)
                for node, law in zip(frontier, laws, strict=True)
            ]
        return tree

    def _law(self, tree, node):
        import torch

        return torch.as_tensor(self.laws[tuple(tree.path_tokens(node))], dtype=torch.float64)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
@pytest.mark.parametrize("name", ["traversal", "specinfer"])
def test_hybrid_trees(case, name):
    drafter = RootHybrid(parse(case["draft"]), case["num_drafts"], case["draft_length"])
    report = analyse_rounds(
        name,
        model_of(parse(case["target"])),
        drafter,
        [case["draft_length"]],
        case["draft_length"] + 1,
    )
    assert report.max_error < EXACT
    if name == "traversal":
        expected = case["expected_accepted_drafts"]["hybrid-root-traversal"]
        assert report.expected_accepted == pytest.approx(expected, abs=1e-9)


# ---------------------------------------------------------------- the enumerator itself


def test_outcomes_walk_every_branch():
    import torch

    law = torch.tensor([0.5, 0.0, 0.25, 0.25], dtype=torch.float64)

    def run(chance):
        if chance.accept(0.25):
            return "yes", chance.draw(law)
        if chance.accept(0.0) or not chance.accept(1.0):
            return "never", 0
        return "no", -1

    found = {result: p for p, result in outcomes(run)}
    assert found == {("yes", 0): 0.125, ("yes", 2): 0.0625, ("yes", 3): 0.0625, ("no", -1): 0.75}
    assert math.isclose(sum(found.values()), 1.0)


def test_missing_laws_are_named():
    with pytest.raises(InvalidInput, match=r"prefix \(0,\)"):
        analyse("token", {(): [0.5, 0.5]}, {(): [0.5, 0.5]}, 1, 1)
    with pytest.raises(InvalidInput, match="Unknown verifier 'nope'"):
        analyse("nope", {(): [1.0]}, {(): [1.0]}, 1, 1)
