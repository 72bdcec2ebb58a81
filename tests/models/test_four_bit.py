"""Drafts with weights of four bits: what they compute, and that nothing is lost but speed."""

from __future__ import annotations

import pytest
import torch

from multidraft import Decoder, SamplingParams
from multidraft.draft import HybridTreeDrafter, ModelDrafter
from multidraft.models import TransformersModel
from multidraft.models.four_bit import (
    GROUP,
    MOST_ROWS,
    FourBitLinear,
    can_be_four_bit,
    pack_four_bit,
    rounded,
)
from multidraft.models.packed import pack_best
from tests.engine.enumerated import enumerate_output
from tests.engine.test_identity import is_greedy
from tests.models.tiny import altered, build

pytestmark = pytest.mark.skipif(
    not can_be_four_bit(torch.device("cpu")), reason="this CPU has no kernel for four bits"
)
BF16 = torch.bfloat16
PROMPT = [1, 2, 0]


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(BF16)


def tiny(name="qwen2", four_bit=True, **changes) -> TransformersModel:
    config = altered(name, **{"vocab_size": 96, "intermediate_size": 64, **changes})
    return TransformersModel(build(config).to(BF16), slots=40, four_bit=four_bit)


def test_each_group_has_sixteen_values_from_its_least_to_its_largest():
    weight = random(48, 3 * GROUP)
    groups = rounded(weight).view(48, 3, GROUP).float()
    original = weight.view(48, 3, GROUP).float()
    assert max(len(set(row.tolist())) for row in groups.flatten(0, 1)) == 16
    step = (original.amax(-1) - original.amin(-1)) / 15
    # Half a step from rounding, and what bfloat16 rounds of steps and values.
    assert ((groups - original).abs().amax(-1) < 0.6 * step).all()
    torch.testing.assert_close(groups.amax(-1), original.amax(-1), rtol=0.02, atol=0.02)


def test_a_group_of_equal_weights_keeps_them():
    weight = torch.full((16, GROUP), 0.25, dtype=BF16)
    assert torch.equal(rounded(weight), weight)
    assert torch.equal(rounded(0 * weight), 0 * weight)


@pytest.mark.parametrize("bias", [None, random(48, seed=2)])
@pytest.mark.parametrize("rows", [1, 2, MOST_ROWS, MOST_ROWS + 1, 40])
def test_the_product_is_the_rounded_weights(rows, bias):
    weight = rounded(random(48, 64))
    layer = FourBitLinear(weight, bias)
    x, other = random(1, rows, 64, seed=1), random(1, rows, 48, seed=3)
    expected = x.float() @ weight.float().T + (0 if bias is None else bias.float())
    torch.testing.assert_close(layer(x).float(), expected, rtol=0.02, atol=0.1)
    added = layer.added(x, other).float()
    torch.testing.assert_close(added, expected + other.float(), rtol=0.02, atol=0.1)
    assert layer(x).shape == (1, rows, 48)


def test_many_rows_are_computed_as_without_four_bits():
    weight = rounded(random(32, 64))
    x = random(9, 64, seed=1)
    assert torch.equal(FourBitLinear(weight, None)(x), pack_best(weight, None)(x))


def test_shapes_that_do_not_fit_are_left_as_they_are():
    for shape in ((24, 64), (32, 48)):
        weight = random(*shape)
        assert type(pack_four_bit(weight, None)) is type(pack_best(weight, None))
    assert type(pack_four_bit(random(32, 64), None)) is FourBitLinear


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2", "gpt2"])
def test_a_model_is_the_one_whose_weights_were_rounded(family):
    """The check at load holds the product's code against transformers' with rounded weights."""
    whole, model = tiny(family, four_bit=False), tiny(family)
    assert model.fingerprint != whole.fingerprint
    layers = [m for m in model._model.modules() if isinstance(m, FourBitLinear)]
    assert len(layers) > 3 * 3 and any(layer.out_features == 96 for layer in layers)
    embedding = model._model.get_input_embeddings().weight
    assert torch.equal(embedding, whole._model.get_input_embeddings().weight)  # tied or not
    for layer in layers:  # the law of a context is one, however many rows a call has
        x = random(1, layer.in_features)
        few, many = layer(x).float(), layer(x.expand(MOST_ROWS + 1, -1))[:1].float()
        assert (few - many).norm() < 0.02 * few.norm()


def test_the_check_at_load_notices_a_wrong_product(monkeypatch):
    from multidraft import UnsupportedModel

    right = FourBitLinear._of_few

    def wrong(self, x):
        out = right(self, x)
        return None if out is None else 1.2 * out

    monkeypatch.setattr(FourBitLinear, "_of_few", wrong)
    with pytest.raises(UnsupportedModel, match="differs"):
        tiny()


@pytest.mark.parametrize("verifier", ["traversal", "spectr-gbv"])
def test_the_output_has_the_targets_law(verifier, monkeypatch):
    """All outputs of four tokens, carries among them, enumerated on real models."""
    used, few = [], FourBitLinear._of_few
    monkeypatch.setattr(
        FourBitLinear, "_of_few", lambda layer, x: used.append(few(layer, x)) or used[-1]
    )
    config = altered("llama", vocab_size=2, eos_token_id=None, num_hidden_layers=1)
    target = TransformersModel(build(config), slots=1)  # float32: its laws are those of any call
    draft = tiny("llama", vocab_size=2, eos_token_id=None, num_hidden_layers=1)
    plain, params = build(config), SamplingParams(temperature=3.0)

    def law(tokens):
        with torch.no_grad():
            return torch.softmax(plain(torch.tensor([tokens])).logits[0, -1].double() / 3, -1)

    prompt, expected = [1, 0, 1], {(): 1.0}
    for _ in range(4):
        expected = {
            (*output, token): p * share
            for output, p in expected.items()
            for token, share in enumerate(law([*prompt, *output]).tolist())
        }
    drafter = ModelDrafter(draft, 2, 2)
    found = enumerate_output(target, drafter, verifier, params, prompt, 4)
    assert found == pytest.approx(expected, abs=1e-6)
    assert sum(product is not None for product in used) > 1000


def test_at_temperature_0_the_text_is_plain():
    config = altered("llama", vocab_size=96)
    target = TransformersModel(build(config), slots=2)  # float32, so that ties do not tell
    decoder = Decoder(target, HybridTreeDrafter(tiny("llama", intermediate_size=48), 3, 6))
    params = SamplingParams(temperature=0.0, max_tokens=30, ignore_eos=True)
    (result,) = decoder.generate([PROMPT], params)
    assert is_greedy(build(config), PROMPT, result.token_ids)
    assert result.stats.accepted > 0
