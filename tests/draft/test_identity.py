"""Temperature 0 gives the plain greedy output, and neighbours change nothing: tiny models."""

from __future__ import annotations

import pytest

from multidraft import Decoder, SamplingParams
from multidraft.models import TransformersModel
from tests.draft.drafters import NAMES, make_drafter
from tests.draft.laws import METHODS, random_model
from tests.engine.speaking import free_slots
from tests.engine.test_identity import add_noise, is_greedy, tiny_prompts
from tests.models.tiny import CONFIGS, build


@pytest.fixture(scope="module", params=["llama", pytest.param("gemma3", marks=pytest.mark.slow)])
def tiny(request):
    """(target, its plain model, draft)."""
    config = CONFIGS[request.param]
    noisy = build(config)
    add_noise(noisy, 0.1)
    target = TransformersModel(build(config), slots=4, max_length=128)
    return target, build(config), TransformersModel(noisy, slots=4, max_length=128)


@pytest.mark.parametrize("verifier", METHODS)
@pytest.mark.parametrize("name", NAMES)
def test_tiny_models_at_temperature_0(tiny, name, verifier):
    target, plain, draft = tiny
    decoder = Decoder(target, make_drafter(name, draft), verifier)
    prompts = tiny_prompts(6)
    results = decoder.generate(prompts, SamplingParams(temperature=0.0, max_tokens=30))
    for prompt, result in zip(prompts, results, strict=True):
        assert len(result.token_ids) == 30
        assert is_greedy(plain, prompt, result.token_ids)
    least = 3 if name == "lookup" else 30
    assert sum(r.stats.accepted for r in results) > least, "the draft is no draft"
    assert free_slots(target) == free_slots(draft) == 4


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_change_nothing(tiny, name):
    target, _, draft = tiny
    decoder = Decoder(target, make_drafter(name, draft))
    prompts = tiny_prompts(7)
    params = [
        SamplingParams(temperature=0.8, seed=i, max_tokens=5 + 3 * i) for i in range(len(prompts))
    ]
    together = decoder.generate(prompts, params)
    for i in (0, 4, 6):
        alone = decoder.generate(prompts[i], params[i])[0]
        assert alone.token_ids == together[i].token_ids


@pytest.mark.parametrize("verifier", METHODS)
@pytest.mark.parametrize("name", NAMES)
def test_functions_at_temperature_0(name, verifier):
    target, draft = random_model(1, 6), random_model(2, 6)
    params = SamplingParams(temperature=0.0, max_tokens=25)
    prompts = [[0, 1, 0, 1, 0], [5], [2, 3, 4]]
    plain = Decoder(target).generate(prompts, params)
    results = Decoder(target, make_drafter(name, draft), verifier).generate(prompts, params)
    assert [r.token_ids for r in results] == [r.token_ids for r in plain]


@pytest.mark.parametrize("name", NAMES)
def test_one_model_as_target_and_draft(tiny, name):
    """Both take their slots from it; half of the sequences wait."""
    target, plain, _ = tiny
    results = Decoder(target, make_drafter(name, target)).generate(
        tiny_prompts(4), SamplingParams(temperature=0.0, max_tokens=15)
    )
    for prompt, result in zip(tiny_prompts(4), results, strict=True):
        assert is_greedy(plain, prompt, result.token_ids)
    assert free_slots(target) == 4
