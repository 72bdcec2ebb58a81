"""Drafts from some of a model's layers and from a reduced head, with every verifier they fit: the
output's law, enumerated. The laws are those of tiny transformers, so those of the code that leaves
layers and head rows out; each is read once per context, which makes them exact."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from multidraft import FunctionModel, SamplingParams
from multidraft.audit.exact import analyse_answer
from multidraft.draft import HybridTreeDrafter, ModelDrafter, SelfDrafter
from multidraft.models import PREFIX, Extension, TransformersModel
from multidraft.verify import VERIFIERS
from tests.draft.laws import EXACT, METHODS
from tests.models.tiny import altered, build

VOCAB, LAYERS = 3, (0, 2)
PROMPT = [1, 2, 0]


@cache
def tiny(*head_tokens: int) -> Read:
    model = build(altered("qwen2", vocab_size=VOCAB))
    return Read(TransformersModel(model, slots=2, head_tokens=list(head_tokens) or None))


class Read(FunctionModel):
    """A model's laws, each from one reading of its context."""

    def __init__(self, model: TransformersModel):
        @cache
        def law(context: tuple[int, ...]) -> torch.Tensor:
            slot = model.open()
            try:
                model.prefill(slot, context[:-1])
                ((logits,),) = model.extend([Extension(slot, context[-1:], [PREFIX])])
            finally:
                model.close(slot)
            return torch.softmax(logits.double(), -1)

        super().__init__(VOCAB, law)
        self._read = model

    def with_layers(self, layers) -> Read:
        return Read(self._read.with_layers(layers))


def check(verifier, target, drafter, temperature) -> None:
    params = SamplingParams(temperature=temperature, max_tokens=4)
    report = analyse_answer(verifier, target, drafter, PROMPT, params)
    assert report.max_error < EXACT
    assert report.expected_accepted > 0.3  # drafts are of use


@pytest.mark.parametrize("temperature", [1.0, pytest.param(0.6, marks=pytest.mark.slow), 0.0])
@pytest.mark.parametrize("verifier", METHODS)
def test_trees_from_the_targets_own_layers(verifier, temperature):
    target = tiny()
    check(verifier, target, SelfDrafter(target, LAYERS, 2, 4), temperature)


@pytest.mark.parametrize("temperature", [1.0, pytest.param(0.6, marks=pytest.mark.slow), 0.0])
@pytest.mark.parametrize("verifier", METHODS)
def test_trees_from_a_reduced_head(verifier, temperature):
    check(verifier, tiny(), HybridTreeDrafter(tiny(0, 1), 2, 4), temperature)


@pytest.mark.parametrize("temperature", [1.0, pytest.param(0.6, marks=pytest.mark.slow), 0.0])
@pytest.mark.parametrize("verifier", sorted(VERIFIERS))
@pytest.mark.parametrize("source", ["layers", "head"])
def test_independent_drafts(source, verifier, temperature):
    target = tiny()
    draft = target.with_layers(LAYERS) if source == "layers" else tiny(0, 1)
    count = 1 if VERIFIERS[verifier].drafts == "one" else 2
    check(verifier, target, ModelDrafter(draft, count, 2), temperature)
