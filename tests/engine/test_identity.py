"""At temperature 0 every method gives the plain greedy output, token for token; and a sequence's
output does not depend on its neighbours. In float32, with random tiny models and with a real one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from transformers import AutoModelForCausalLM

from multidraft import Decoder, SamplingParams, load_model
from multidraft.draft import ModelDrafter
from multidraft.errors import ModelUnavailable
from multidraft.models import TransformersModel
from multidraft.models.store import resolve
from multidraft.verify import VERIFIERS
from tests.engine.speaking import all_free
from tests.models.tiny import CONFIGS, VOCAB, build

METHODS = list(VERIFIERS)


def drafter_for(name: str, draft, num_drafts: int = 3, draft_length: int = 4) -> ModelDrafter:
    return ModelDrafter(draft, 1 if VERIFIERS[name].drafts == "one" else num_drafts, draft_length)


@torch.no_grad()
def add_noise(model, scale: float) -> None:
    """Every matrix gets noise of ``scale`` times its own spread: a draft of any quality."""
    draw = torch.Generator().manual_seed(0)
    for weights in model.parameters():
        if weights.dim() == 2:
            weights += scale * weights.std() * torch.randn(weights.shape, generator=draw)


@torch.inference_mode()
def is_greedy(model, prompt: Sequence[int], output: Sequence[int]) -> bool:
    """Whether each token is the plain model's argmax after those before it. In one forward: if
    all are, the output is what plain greedy decoding gives, by induction over its tokens."""
    logits = model(torch.tensor([[*prompt, *output]]), use_cache=False).logits[0]
    return logits[len(prompt) - 1 : -1].argmax(-1).tolist() == list(output)


def check_neighbours(decoder: Decoder, prompts, longest: int) -> None:
    """One sequence with others that join and leave, alone, and all of them in a batch of 8; every
    other one at temperature 0."""
    rng = random.Random(5)
    params = [
        SamplingParams(
            temperature=0.0 if i % 2 else 0.8,
            seed=i,
            ignore_eos=True,
            max_tokens=longest if i == 0 else rng.randrange(2, longest // 2),
        )
        for i in range(len(prompts))
    ]
    alone = [decoder.generate(prompts[i], params[i])[0].token_ids for i in (0, 5)]
    batch = decoder.generate(prompts, params)
    assert decoder.target.num_slots == 8 < len(prompts)
    assert [batch[0].token_ids, batch[5].token_ids] == alone

    sequence = decoder.submit(prompts[0], params[0])
    others = []
    for i in range(1, len(prompts)):
        decoder.engine.step()
        others.append(decoder.submit(prompts[i], params[i]))
        if i % 3 == 0:
            decoder.engine.cancel(others[i // 2])
    while decoder.engine.busy:
        decoder.engine.step()
    assert sequence.output == alone[0]
    for other, result in zip(others, batch[1:], strict=True):
        assert other.output == result.token_ids[: len(other.output)]
    assert all_free(decoder)


# ------------------------------------------------------------ tiny models

FAMILIES = ["llama", "gemma3", pytest.param("gpt2", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=FAMILIES)
def tiny(request):
    """(target, its plain model, draft)."""
    config = CONFIGS[request.param]
    noisy = build(config)
    add_noise(noisy, 0.1)
    target = TransformersModel(build(config), slots=8, max_length=128)
    return target, build(config), TransformersModel(noisy, slots=8, max_length=128)


def tiny_prompts(count: int) -> list[list[int]]:
    rng = random.Random(3)
    lengths = [5, 1, 40, *(rng.randrange(1, 30) for _ in range(count))][:count]
    return [[rng.randrange(VOCAB) for _ in range(length)] for length in lengths]


@pytest.mark.parametrize("name", [None, *METHODS], ids=lambda name: name or "plain")
def test_tiny_models_at_temperature_0(tiny, name):
    target, plain, draft = tiny
    decoder = Decoder(target, name and drafter_for(name, draft), name or "token")
    prompts = tiny_prompts(6)
    results = decoder.generate(prompts, SamplingParams(temperature=0.0, max_tokens=30, seed=1))
    for prompt, result in zip(prompts, results, strict=True):
        assert len(result.token_ids) == 30
        assert is_greedy(plain, prompt, result.token_ids)
    if name:
        assert sum(r.stats.accepted for r in results) > 30, "the draft is no draft"
    assert all_free(decoder)


@pytest.mark.parametrize("name", METHODS)
def test_neighbours_of_tiny_models(tiny, name):
    target, _, draft = tiny
    decoder = Decoder(target, drafter_for(name, draft), name)
    check_neighbours(decoder, tiny_prompts(10), longest=24)


def test_one_transformers_model_as_target_and_draft(tiny):
    target, plain, _ = tiny
    decoder = Decoder(target, ModelDrafter(target, 2, 3))
    for prompt in tiny_prompts(3):
        result = decoder.generate(prompt, SamplingParams(temperature=0.0, max_tokens=20))[0]
        assert is_greedy(plain, prompt, result.token_ids)
    results = decoder.generate(tiny_prompts(9), SamplingParams(max_tokens=20, seed=1))
    accepted, drafted = (sum(getattr(r.stats, f) for r in results) for f in ("accepted", "drafted"))
    assert accepted > 0.95 * drafted / 2  # of two drafts, one is accepted whole
    assert all_free(decoder)


# ------------------------------------------------------------ a real model

NAME = "smollm2-135m-instruct"
TOKENS = 80
QUICK = ("token", "spectr-gbv", "traversal")  # tiny models take all of them
PROMPT = [{"role": "user", "content": "Write a short story about a lighthouse keeper."}]


@pytest.fixture(scope="module")
def real():
    """(target, its plain model, a draft that agrees with it about half of the time)."""
    try:
        folder = resolve(NAME)
    except ModelUnavailable as error:
        pytest.skip(f"needs `multidraft pull {NAME}`: {error}")
    target = load_model(NAME, dtype="float32", max_length=512)
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    noisy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    add_noise(noisy, 0.05)
    draft = TransformersModel(noisy, tokenizer=target.tokenizer, max_length=512, slots=8)
    return target, plain, draft


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in METHODS],
)
def test_a_real_model_at_temperature_0(real, name):
    target, plain, draft = real
    decoder = Decoder(target, drafter_for(name, draft), name)
    params = SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True, seed=1)
    result = decoder.generate(PROMPT, params)[0]
    assert len(result.token_ids) == TOKENS
    assert is_greedy(plain, result.prompt_token_ids, result.token_ids)
    if name == "token":  # one greedy draft: neither trivial nor useless
        assert 0.3 < result.stats.acceptance_rate < 0.8


REAL_PROMPTS = [
    "The lighthouse stood",
    "def merge(a, b):",
    "Paris is the capital of France, and Rome",
    "1, 2, 3,",
    "Dear Sir or Madam, I am writing to you today because",
    "Once upon a time",
    "The three laws of thermodynamics are",
    "Q: What is the boiling point of water?\nA:",
    "import numpy as np\n",
    "Roses are red,",
]


def test_neighbours_of_a_real_model(real):
    target, _, draft = real
    decoder = Decoder(target, drafter_for("traversal", draft))
    check_neighbours(decoder, REAL_PROMPTS, longest=24)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spectr", "spectr-gbv", "multipath", "block"])
def test_neighbours_of_a_real_model_with_other_methods(real, name):
    target, _, draft = real
    decoder = Decoder(target, drafter_for(name, draft), name)
    check_neighbours(decoder, REAL_PROMPTS, longest=40)
