"""How far each planted fault is from the target's law, and that nothing else is wrong with it."""

from __future__ import annotations

import functools

import pytest
import torch
from transformers import AutoModelForCausalLM

from multidraft import FunctionModel, SamplingParams
from multidraft.audit.exact import analyse_answer
from multidraft.audit.testmodels import build_pair
from multidraft.models.load import load_model
from tests.audit.faults import FAULTS, VOCAB_SIZE

#: Twice the bias that an audit is sure to see by default.
LARGE = 0.06


@pytest.fixture(scope="module")
def pair_of(tmp_path_factory):
    """The folders of a fault's pair, built once."""
    parent = tmp_path_factory.mktemp("pairs")

    def pair_of(fault):
        folder = parent / f"{fault.distance}-{fault.seed}"
        return build_pair(folder, fault.distance, VOCAB_SIZE, fault.seed)

    return pair_of


@functools.cache
def function_model(folder):
    """A folder's model as its exact laws, from logits in float64."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()

    @functools.cache
    @torch.no_grad()
    def law(context):
        logits = model(torch.tensor([context]), use_cache=False).logits[0, -1]
        return torch.softmax(logits, -1)

    return FunctionModel(VOCAB_SIZE, law)


def exact_report(fault, engine_of, pair):
    decoder = engine_of(function_model(pair.target), function_model(pair.draft))
    engine = decoder.engine
    return analyse_answer(
        engine.verifier, engine.target, engine.drafter, fault.prompt, fault.params
    )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_bias_is_known_and_the_right_engine_has_none(fault, pair_of):
    assert fault.num_tokens >= fault.draft_length + 2
    pair = pair_of(fault)
    bias = exact_report(fault, fault.decoder, pair).total_variation
    if fault.name == "bfloat16-ratio":
        assert 1e-6 < bias < 0.01
    else:
        assert bias >= LARGE
    assert exact_report(fault, fault.right, pair).max_error < 1e-12


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_real_models_decode_with_it(fault, pair_of):
    pair = pair_of(fault)
    target, draft = (load_model(f, "float32", "cpu") for f in (pair.target, pair.draft))
    law = exact_report(fault, fault.decoder, pair).law
    for result in fault.decoder(target, draft).generate([list(fault.prompt)] * 16, fault.params):
        assert law[tuple(result.token_ids)] > 0.0  # every answer is one the enumeration knows


def test_an_answer_is_enumerated_with_its_penalties(pair_of):
    """The laws of later tokens depend on the earlier ones, in a round and across rounds."""
    fault = FAULTS[0]
    pair = pair_of(fault)
    params = SamplingParams(
        top_k=3, presence_penalty=1.0, repetition_penalty=1.5, max_tokens=4, ignore_eos=True
    )
    engine = fault.right(function_model(pair.target), function_model(pair.draft)).engine
    report = analyse_answer(engine.verifier, engine.target, engine.drafter, fault.prompt, params)
    plain = exact_report(fault, fault.right, pair)
    assert report.max_error < 1e-12
    assert report.law != plain.law
