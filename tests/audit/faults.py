"""Planted faults: engines built on the product's own code, with one thing wrong in each.

`FAULTS` lists them, each in a setting where it shows. The exact enumerator says how far each is
from the target's law; an audit has to call it biased.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from multidraft import Decoder, SamplingParams
from multidraft.audit.alphabet import default_prompt
from multidraft.draft import ModelDrafter
from multidraft.engine.laws import TargetLaws
from multidraft.models.base import LanguageModel
from multidraft.sampling import Warper
from multidraft.tree import ROOT, DraftTree, Entry
from multidraft.verify import VERIFIERS, Verdict
from multidraft.verify.base import VerifyFunction
from multidraft.verify.residual import residual

VOCAB_SIZE = 8

# ---------------------------------------------------------------- wrong drafters


class DrawnAtOtherTemperature(ModelDrafter):
    """Draws at half the temperature that its laws are stated at."""

    def open(self, prompt, params, vocab_size):
        return super().open(prompt, replace(params, temperature=params.temperature / 2), vocab_size)

    def propose(self, requests):
        return [
            restated(tree, lambda law: normalised(law**0.5)) for tree in super().propose(requests)
        ]


class BFloat16Ratio(ModelDrafter):
    """Draws from its law, and states it rounded to bfloat16."""

    def propose(self, requests):
        trees = super().propose(requests)
        return [restated(tree, lambda law: law.bfloat16().to(law.dtype)) for tree in trees]


class UnlikelyDropped(ModelDrafter):
    """Draws, and then leaves out the tokens that were not likely."""

    THRESHOLD = 0.25

    def __init__(self, model, num_drafts, draft_length):
        super().__init__(model, num_drafts, draft_length)
        self.drafts = "any"

    def propose(self, requests):
        trees = super().propose(requests)
        for tree in trees:
            tree.chains = None
            tree.entries = [
                [e for e in entries if e.proposal[tree.tokens[e.node]] >= self.THRESHOLD]
                for entries in tree.entries
            ]
        return trees


class LeavesScored(ModelDrafter):
    """Nothing wrong: gives its law at the leaves too, for a verifier that should not ask."""

    def propose(self, requests):
        return super().propose([replace(r, carry_left=r.draft_length + 1) for r in requests])


def restated(tree: DraftTree, change: Callable[[torch.Tensor], torch.Tensor]) -> DraftTree:
    """The tree with other laws than its tokens were drawn from."""
    tree.laws = {node: change(law) for node, law in tree.laws.items()}
    tree.entries = [
        [Entry(e.node, change(e.proposal)) for e in entries] for entries in tree.entries
    ]
    return tree


def normalised(law: torch.Tensor) -> torch.Tensor:
    return law / law.sum()


# ---------------------------------------------------------------- wrong verifiers


def residual_from_target(tree, laws, chance, carry) -> Verdict:
    """After a rejection, a token from q and not from what the rejection left of it."""
    verdict = VERIFIERS["token"].function(tree, laws, chance, carry)
    return verdict._replace(token=chance.draw(laws(end(verdict))))


def token_level_residual(tree, laws, chance, carry) -> Verdict:
    """Block verification with norm([q - p]+) where its weight belongs: norm([a q - p]+)."""
    verdict = VERIFIERS["block"].function(tree, laws, chance, carry)
    node = end(verdict)
    if not tree.entries[node]:
        return verdict
    left, _ = residual(laws(node), tree.laws[node])
    return verdict._replace(token=chance.draw(laws(node) if left is None else left))


def carry_dropped(tree, laws, chance, carry) -> Verdict:
    """Greedy verification that forgets the rewritten law at the end of a round."""
    return VERIFIERS["spectr-gbv"].function(tree, laws, chance, ())._replace(carry=())


def duplicates_grouped(tree, laws, chance, carry) -> Verdict:
    """Traversal that moves later draws of a token to its first."""

    def grouped(entries: list[Entry]) -> list[Entry]:
        nodes = [entry.node for entry in entries]
        return sorted(entries, key=lambda entry: nodes.index(entry.node))

    moved = dataclasses.replace(tree, entries=[grouped(entries) for entries in tree.entries])
    return VERIFIERS["traversal"].function(moved, laws, chance, carry)


def bonus_from_draft(tree, laws, chance, carry) -> Verdict:
    """When every draft token is accepted, one more token of the draft."""
    verdict = VERIFIERS["token"].function(tree, laws, chance, carry)
    node = end(verdict)
    if node == ROOT or tree.entries[node]:
        return verdict
    return verdict._replace(token=chance.draw(tree.laws[node]))


def target_without_top_p(tree, laws, chance, carry) -> Verdict:
    """The request's top_p acts on the draft alone (of its parameters, no other is set)."""
    rows = laws.logits
    whole = TargetLaws(rows, Warper(SamplingParams(), (), rows.shape[1]), tree)
    return VERIFIERS["token"].function(tree, whole, chance, carry)


def end(verdict: Verdict) -> int:
    return verdict.path[-1] if verdict.path else ROOT


# ---------------------------------------------------------------- faults


@dataclass(frozen=True)
class Fault:
    """One wrong engine, and the setting in which it shows.

    Attributes:
        name: what is wrong, a word for test ids.
        method: the verifier that is right, or would be.
        num_tokens, num_drafts, draft_length: n, K and L.
        top_k, top_p, temperature: of the request.
        distance, seed: of the pair of models.
        verify: the wrong verification, None where that is right.
        drafter: the class of the drafter.
    """

    name: str
    method: str
    num_tokens: int
    num_drafts: int
    draft_length: int
    top_k: int
    distance: float = 0.45
    seed: int = 6
    top_p: float = 1.0
    temperature: float = 1.0
    verify: VerifyFunction | None = None
    drafter: Callable[[LanguageModel, int, int], ModelDrafter] = ModelDrafter

    @property
    def prompt(self) -> tuple[int, ...]:
        return default_prompt(VOCAB_SIZE)

    @property
    def params(self) -> SamplingParams:
        return SamplingParams(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            max_tokens=self.num_tokens,
            ignore_eos=True,
        )

    def decoder(self, target: LanguageModel, draft: LanguageModel) -> Decoder:
        """The wrong engine."""
        verifier = VERIFIERS[self.method]
        if self.verify is not None:
            verifier = replace(verifier, name=self.name, function=self.verify)
        return Decoder(target, self.drafter(draft, self.num_drafts, self.draft_length), verifier)

    def right(self, target: LanguageModel, draft: LanguageModel) -> Decoder:
        """The same engine with nothing wrong."""
        return Decoder(target, ModelDrafter(draft, self.num_drafts, self.draft_length), self.method)


# Columns: n, K, L and top_k. Pairs and settings come from a search over a few distances and seeds
# for those where the faults that are hard to see are largest.
FAULTS = [
    Fault("draft-temperature", "token", 4, 1, 2, 4, drafter=DrawnAtOtherTemperature),
    Fault("draft-temperature-k2", "spectr", 4, 2, 2, 3, drafter=DrawnAtOtherTemperature),
    Fault("residual-from-target", "token", 4, 1, 2, 4, verify=residual_from_target),
    Fault("block-residual", "block", 5, 1, 3, 3, distance=0.3, seed=8, verify=token_level_residual),
    Fault("carry-dropped-k1", "greedy-block", 4, 1, 2, 4, verify=carry_dropped),
    Fault("carry-dropped-k2", "spectr-gbv", 4, 2, 2, 3, verify=carry_dropped),
    Fault("duplicates-grouped", "traversal", 3, 5, 1, 3, verify=duplicates_grouped),
    Fault("bonus-from-draft", "token", 4, 1, 2, 4, verify=bonus_from_draft, drafter=LeavesScored),
    Fault("bfloat16-ratio", "token", 4, 1, 2, 4, distance=0.3, seed=0, drafter=BFloat16Ratio),
    Fault("target-without-top-p", "token", 4, 1, 2, 0, top_p=0.8, verify=target_without_top_p),
    Fault("unlikely-dropped", "specinfer", 4, 2, 2, 3, drafter=UnlikelyDropped),
    Fault("unlikely-dropped-tree", "traversal", 4, 2, 2, 3, drafter=UnlikelyDropped),
]
