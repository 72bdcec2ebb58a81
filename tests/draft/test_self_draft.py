"""Drafts from the target's own layers: the target's law, and layers chosen on sample text."""

from __future__ import annotations

import itertools

import pytest
import torch
from scipy.stats import chisquare

from multidraft import Decoder, InvalidInput, SamplingParams
from multidraft.draft import ModelDrafter, SelfDrafter
from multidraft.draft.calibrate import best_draft, calibrate
from multidraft.models import TransformersModel
from tests.engine.test_identity import is_greedy
from tests.models.tiny import CONFIGS, altered, build, plain_logits

SMALL = 4  # tokens of the vocabulary where sequences are counted


def small_target() -> TransformersModel:
    return TransformersModel(build(altered("qwen2", vocab_size=SMALL)), slots=100)


@pytest.mark.parametrize(
    "verifier", ["traversal", pytest.param("specinfer", marks=pytest.mark.slow), "spectr-gbv"]
)
def test_the_output_has_the_targets_law(verifier):
    target = small_target()
    prompt, length, count = [1, 2, 0], 3, 2_000
    if verifier == "spectr-gbv":
        drafter = ModelDrafter(target.with_layers([0, 2]), 2, 2)
    else:
        drafter = SelfDrafter(target, [0, 2], draft_length=2, max_nodes=5)
    decoder = Decoder(target, drafter, verifier)
    params = SamplingParams(max_tokens=length, seed=3)
    results = decoder.generate([prompt] * count, params)
    assert sum(r.stats.accepted for r in results) > count  # drafts are of use

    plain = build(target._model.config)
    expected = []
    for tokens in itertools.product(range(SMALL), repeat=length):
        chance = 1.0
        for i, token in enumerate(tokens):
            logits = plain_logits(plain, [*prompt, *tokens[:i]])
            chance *= float(torch.softmax(logits, -1)[token])
        expected.append(chance * count)
    seen = [0] * len(expected)
    for result in results:
        a, b, c = result.token_ids
        seen[(a * SMALL + b) * SMALL + c] += 1
    order = sorted(range(len(expected)), key=lambda i: expected[i])
    rare = [i for i in order if expected[i] < 5]
    often = [i for i in order if expected[i] >= 5]
    tested = [[seen[i] for i in often], [expected[i] for i in often]]
    if rare:
        tested[0].append(sum(seen[i] for i in rare))
        tested[1].append(sum(expected[i] for i in rare))
    assert chisquare(*tested, sum_check=False).pvalue > 1e-4


@pytest.mark.parametrize("layers", [[0], [0, 2], [1, 2]])
def test_at_temperature_0_the_text_is_plain(layers):
    model = build(CONFIGS["llama"])
    target = TransformersModel(build(CONFIGS["llama"]), slots=2)
    prompt = [5, 17, 9, 3]
    decoder = Decoder(target, SelfDrafter(target, layers, draft_length=3))
    params = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    (result,) = decoder.generate([prompt], params)
    assert is_greedy(model, prompt, result.token_ids)


def idle_layer_model() -> TransformersModel:
    """Of four layers, the second adds nothing to what passes through it."""
    model = build(altered("llama", num_hidden_layers=4))
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight.zero_()
        model.model.layers[1].mlp.down_proj.weight.zero_()
    return TransformersModel(model)


def test_calibration_leaves_out_first_what_does_nothing():
    told = []
    target = idle_layer_model()
    text = torch.randint(101, (80,), generator=torch.Generator().manual_seed(1)).tolist()
    found = calibrate(target, text, lambda done, total: told.append((done, total)))
    assert [len(c.layers) for c in found] == [3, 2, 1]
    assert found[0].layers == (0, 2, 3)
    assert found[0].overlap == pytest.approx(1.0, abs=1e-3)
    assert found[1].overlap < 0.95
    assert all(set(b.layers) < set(a.layers) for a, b in itertools.pairwise(found))
    assert told[-1][0] == told[-1][1] and sorted(told) == told
    assert all(target.open() == i for i in range(target.num_slots))  # no slot is left taken


def test_the_best_draft():
    assert best_draft(0.5, 0.6) == (0, 1.0)  # a token accepted half the time does not pay 0.6
    length, speed_up = best_draft(0.9, 0.1)
    assert length == 10 and speed_up == pytest.approx((1 - 0.9**11) / 0.1 / 2.0)
    assert best_draft(1.0, 0.1) == (16, pytest.approx(17 / 2.6))


def test_text_that_is_too_short_or_too_long():
    target = TransformersModel(build(CONFIGS["llama"]))
    for count in (15, 129):
        with pytest.raises(InvalidInput, match="16 to 128 tokens"):
            calibrate(target, [1] * count)


def test_one_layer_is_not_enough():
    with pytest.raises(InvalidInput, match="one layer"):
        calibrate(TransformersModel(build(altered("llama", num_hidden_layers=1))), [1] * 20)
