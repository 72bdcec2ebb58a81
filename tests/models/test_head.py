"""Reduced heads against the full model of the same weights."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from scipy.stats import chisquare
from torch import nn
from transformers import GPT2Config, LlamaConfig, PreTrainedModel

from multidraft import Decoder, SamplingParams
from multidraft.draft import HybridTreeDrafter, ModelDrafter
from multidraft.errors import InvalidInput, UnsupportedModel
from multidraft.models import PREFIX, Extension, TransformersModel, load_model
from multidraft.models.packed import PackedLinear
from multidraft.sampling import Warper
from tests.engine.test_identity import add_noise, is_greedy, tiny_prompts
from tests.models.tiny import CONFIGS, SHAPE, VOCAB, build, plain_logits

LISTED = [50, 3, 7, 99, 0, 21, 64, 12]
END = 5
ALL = sorted([*LISTED, END])
OTHERS = sorted(set(range(VOCAB)) - set(ALL))
TREE = ([1, 60, 2, 3, 4], [PREFIX, 0, 0, 2, PREFIX])


def reduced(family: str, tokens=LISTED, dtype=torch.float32, **kwargs) -> TransformersModel:
    model = build(CONFIGS[family]).to(dtype)
    return TransformersModel(model, eos_token_ids=[END], head_tokens=tokens, slots=2, **kwargs)


def scored(model: TransformersModel, wanted=None) -> torch.Tensor:
    slot = model.open()
    model.prefill(slot, [9, 8, 7, 6, 5])
    (logits,) = model.extend([Extension(slot, *TREE, wanted)])
    model.commit(slot, [0, 2])
    (more,) = model.extend([Extension(slot, [70], [PREFIX])])
    model.close(slot)
    return torch.cat([logits, more])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", sorted(CONFIGS))
def test_listed_tokens_have_the_full_heads_logits_and_others_none(family, dtype):
    full = TransformersModel(build(CONFIGS[family]).to(dtype), slots=2)
    model = reduced(family, dtype=dtype)
    assert (model.vocab_size, model.dtype) == (VOCAB, dtype)
    for wanted in (None, [2, 4, 1]):
        logits, expected = scored(model, wanted), scored(full, wanted)
        assert logits.shape == expected.shape and logits.dtype == dtype
        assert (logits[:, OTHERS] == -torch.inf).all()
        near = 1e-5 if dtype == torch.float32 else 0.05
        torch.testing.assert_close(logits[:, ALL], expected[:, ALL], atol=near, rtol=near)
    assert scored(model, []).shape == (1, VOCAB)


def test_a_soft_cap_is_applied_to_listed_tokens_only():
    """gemma2's cap is 30: a tanh of -inf would have been -30, a token like any other."""
    assert CONFIGS["gemma2"].final_logit_softcapping == 30.0
    assert (scored(reduced("gemma2"))[:, OTHERS] == -torch.inf).all()


def test_a_bias_goes_with_its_row():
    def biased() -> PreTrainedModel:
        model = build(CONFIGS["qwen2"])
        model.lm_head = nn.Linear(32, VOCAB)
        nn.init.normal_(model.lm_head.weight, generator=torch.Generator().manual_seed(1))
        nn.init.normal_(model.lm_head.bias, generator=torch.Generator().manual_seed(2))
        return model

    full = scored(TransformersModel(biased(), slots=1))
    logits = scored(TransformersModel(biased(), slots=1, head_tokens=ALL))
    torch.testing.assert_close(logits[:, ALL], full[:, ALL], atol=1e-5, rtol=1e-5)


def test_the_law_is_the_full_one_renormalised():
    params = SamplingParams(temperature=0.7)
    full = Warper(params, [], VOCAB).laws(scored(TransformersModel(build(CONFIGS["llama"]))))
    law = Warper(params, [], VOCAB).laws(scored(reduced("llama")))
    expected = torch.zeros_like(full)
    expected[:, ALL] = full[:, ALL] / full[:, ALL].sum(-1, keepdim=True)
    torch.testing.assert_close(law, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("family", "tied"), [("llama", True), ("qwen2", False)])
def test_the_full_head_is_freed(family, tied):
    model = build(CONFIGS[family])
    assert (model.lm_head.weight is model.get_input_embeddings().weight) == tied
    weight, embedding = weakref.ref(model.lm_head.weight), model.get_input_embeddings()
    wrapped = TransformersModel(model, head_tokens=LISTED, slots=1)
    gc.collect()
    assert (weight() is embedding.weight) if tied else weight() is None
    heads = [m for m in model.modules() if getattr(m, "out_features", None) == VOCAB]
    assert not heads, "the full head is still there"
    assert model.get_output_embeddings().out_features == len(LISTED)
    assert scored(wrapped).isfinite().any()


def test_without_a_packed_form(monkeypatch):
    for module in ("head", "packed"):
        monkeypatch.setattr(f"multidraft.models.{module}.can_pack", lambda *_: False)
    model = reduced("gpt2")
    assert not isinstance(model._model.get_output_embeddings(), PackedLinear)
    logits, full = scored(model), scored(TransformersModel(build(CONFIGS["gpt2"])))
    torch.testing.assert_close(logits[:, ALL], full[:, ALL], atol=1e-5, rtol=1e-5)


def test_costs_are_kept_per_size_of_head():
    full = TransformersModel(build(CONFIGS["llama"]))
    prints = {full.fingerprint, reduced("llama").fingerprint, reduced("llama", [1, 2]).fingerprint}
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "empty"),
        ([1, 2, VOCAB], f"holds {VOCAB}; token ids are integers from 0 to {VOCAB - 1}"),
        ([-1], "holds -1"),
        ([1.5], "holds 1.5"),
        ([1, 2, 1], "holds token 1 more than once"),
    ],
)
def test_lists_that_are_none(tokens, message):
    with pytest.raises(InvalidInput, match=message):
        reduced("llama", tokens)


def test_an_output_layer_of_another_kind_is_refused():
    class Scaled(nn.Linear):
        pass

    model = build(GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=1, n_head=4, n_positions=32))
    model.lm_head = Scaled(32, VOCAB, bias=False)
    with pytest.raises(UnsupportedModel, match="without head_tokens"):
        TransformersModel(model, head_tokens=LISTED, slots=1)


def test_the_check_at_load_covers_the_reduced_head(monkeypatch):
    """Rows of the wrong tokens are noticed."""
    from multidraft.models import head

    taken = head._rows_of
    monkeypatch.setattr(head, "_rows_of", lambda layer, ids, pack: taken(layer, ids - 1, pack))
    with pytest.raises(UnsupportedModel, match="differs"):
        TransformersModel(build(CONFIGS["llama"]), head_tokens=LISTED, slots=1)


def test_token_ids_through_load_model(tmp_path):
    build(CONFIGS["llama"]).save_pretrained(tmp_path)
    model = load_model(tmp_path, dtype="float32", device="cpu", slots=1, head_tokens=[4, 50])
    assert model.head is not None
    assert model.head.tokens.tolist() == [2, 4, 50]  # 2 ends sequences
    with pytest.raises(InvalidInput, match="no tokenizer"):
        load_model(tmp_path, device="cpu", head_tokens=10)


# ------------------------------------------------------------ as a draft

SAMPLES = 1_500


@pytest.fixture(scope="module")
def pair():
    """(target, its plain model, a draft that lacks half of the tokens)."""
    noisy = build(CONFIGS["llama"])
    add_noise(noisy, 0.1)
    target = TransformersModel(build(CONFIGS["llama"]), slots=4, max_length=128)
    draft = TransformersModel(noisy, slots=4, max_length=128, head_tokens=range(0, VOCAB, 2))
    return target, build(CONFIGS["llama"]), draft


DRAFTERS = {
    "spectr-gbv": lambda draft: ModelDrafter(draft, 3, 4),
    "traversal": lambda draft: HybridTreeDrafter(draft, 4, 9),
}


@pytest.mark.parametrize("verifier", sorted(DRAFTERS))
def test_temperature_0_gives_the_plain_output(pair, verifier):
    target, plain, draft = pair
    decoder = Decoder(target, DRAFTERS[verifier](draft), verifier)
    params = SamplingParams(temperature=0.0, max_tokens=40)
    results = decoder.generate(tiny_prompts(5), params)
    for prompt, result in zip(tiny_prompts(5), results, strict=True):
        assert is_greedy(plain, prompt, result.token_ids)
    assert any(token % 2 for result in results for token in result.token_ids)
    assert sum(result.stats.accepted for result in results) > 10, "the draft is no draft"


@pytest.mark.parametrize("verifier", sorted(DRAFTERS))
def test_the_output_has_the_targets_law(verifier):
    """Two tokens of eight, of which the draft has three: all 64 pairs, fixed seeds."""
    config = LlamaConfig(**SHAPE | {"vocab_size": 8, "num_hidden_layers": 1})
    noisy = build(config)
    add_noise(noisy, 0.3)
    target = TransformersModel(build(config), slots=32, max_length=32)
    draft = TransformersModel(noisy, slots=32, max_length=32, head_tokens=[0, 3, 6])
    prompt = [1, 4]
    first = plain_logits(build(config), prompt).softmax(-1)
    second = torch.stack([plain_logits(build(config), [*prompt, t]).softmax(-1) for t in range(8)])
    law = (first[:, None] * second).double().flatten()

    params = SamplingParams(max_tokens=2, n=SAMPLES, seed=11)
    results = Decoder(target, DRAFTERS[verifier](draft), verifier).generate(prompt, params)
    pairs = torch.tensor([8 * a + b for a, b in (r.token_ids for r in results)])
    counts = torch.bincount(pairs, minlength=64).double()
    rare = law * SAMPLES < 5
    seen, due = (torch.cat([x[~rare], x[rare].sum()[None]]) for x in (counts, law * SAMPLES))
    assert sum(r.stats.accepted for r in results) > SAMPLES / 4, "the draft is no draft"
    assert chisquare(seen, due / due.sum() * SAMPLES).pvalue > 1e-4


def test_a_target_needs_its_whole_head(pair):
    with pytest.raises(InvalidInput, match="The target has a head of 51 tokens"):
        Decoder(pair[2])
