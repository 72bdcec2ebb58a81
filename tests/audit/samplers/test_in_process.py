"""The samplers that run in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from multidraft.audit.samplers import DecoderSampler, MultidraftSampler, TransformersSampler
from multidraft.audit.setting import Sampler
from multidraft.engine import Decoder
from multidraft.errors import AuditError, InvalidInput
from multidraft.models import load_model
from tests.audit.samplers.conftest import MakeRequests, MakeSetting

KINDS = ["ar", "traversal", "block", "plain", "assisted", "lookup"]


def open_kind(kind: str, setting: MakeSetting, **changes: object) -> Sampler:
    if kind in ("ar", "traversal", "block"):
        return MultidraftSampler(setting(**changes), kind)
    return TransformersSampler(setting(**changes), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_have_the_asked_length_and_follow_the_seeds(
    kind: str, setting: MakeSetting, requests: MakeRequests
) -> None:
    with open_kind(kind, setting) as sampler:
        first = sampler.sample(requests(10))
        again = sampler.sample(requests(10))
        other = sampler.sample(requests(10, first_seed=100))
    assert first == again
    assert first != other
    assert len(set(first)) > 2
    assert all(len(tokens) == 5 and set(tokens) <= set(range(8)) for tokens in first)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_answers_agree_between_engines(
    kind: str, setting: MakeSetting, requests: MakeRequests
) -> None:
    with open_kind(kind, setting, temperature=0.0) as sampler:
        answers = sampler.sample(requests(4))
    with open_kind("plain", setting, temperature=0.0) as reference:
        assert answers == reference.sample(requests(4, first_seed=50))


@pytest.mark.parametrize("kind", ["traversal", "plain", "assisted", "lookup"])
def test_top_k_1_and_a_tiny_top_p_are_greedy(
    kind: str, setting: MakeSetting, requests: MakeRequests
) -> None:
    with open_kind(kind, setting, temperature=0.0) as sampler:
        greedy = sampler.sample(requests(4))
    for option in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        with open_kind(kind, setting, **option) as sampler:
            assert sampler.sample(requests(4)) == greedy


def test_transformers_takes_nothing_from_its_own_defaults(
    setting: MakeSetting, requests: MakeRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import GenerationConfig

    # Its default, 50, is more than our models' vocabulary.
    defaults = {**GenerationConfig._get_default_generation_params(), "top_k": 1, "top_p": 1e-6}
    monkeypatch.setattr(
        GenerationConfig, "_get_default_generation_params", staticmethod(lambda: defaults)
    )
    with TransformersSampler(setting(num_tokens=1)) as sampler:
        assert len(set(sampler.sample(requests(20)[::2]))) > 1


def test_transformers_drafts_the_asked_length(
    setting: MakeSetting, requests: MakeRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.generation.candidate_generator import AssistedCandidateGenerator

    lengths = []
    get_candidates = AssistedCandidateGenerator.get_candidates

    def spy(self, input_ids, **kwargs):  # type: ignore[no-untyped-def]
        found = get_candidates(self, input_ids, **kwargs)
        lengths.append(found[0].shape[1] - input_ids.shape[1])
        return found

    monkeypatch.setattr(AssistedCandidateGenerator, "get_candidates", spy)
    with TransformersSampler(setting(num_tokens=20, draft_length=3), "assisted") as sampler:
        sampler.sample(requests(10))
    # Shorter only where less than that may still be emitted.
    assert set(lengths) <= {0, 1, 2, 3}
    assert lengths.count(3) > 0.7 * len(lengths)


def test_transformers_leaves_the_global_random_numbers_alone(
    setting: MakeSetting, requests: MakeRequests
) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with TransformersSampler(setting()) as sampler:
        sampler.sample(requests(2))
    assert torch.equal(torch.rand(2), expected)


def test_names_show_engine_version_and_mode(setting: MakeSetting) -> None:
    assert MultidraftSampler(setting(), "traversal").name.endswith(", traversal, K 3, L 3")
    assert MultidraftSampler(setting(), "block").name.endswith(", block, K 1, L 3")
    assert MultidraftSampler(setting(), "ar").name.endswith(", ar")
    assert TransformersSampler(setting(), "assisted").name.endswith(", assisted, L 3")


def test_a_ready_decoder_can_be_audited(setting: MakeSetting, requests: MakeRequests) -> None:
    decoder = Decoder(load_model(setting().target, dtype="float32", slots=4))
    with DecoderSampler(decoder, setting(), "my decoder") as sampler:
        assert sampler.name == "my decoder"
        with MultidraftSampler(setting(), "ar") as reference:
            assert sampler.sample(requests(6)) == reference.sample(requests(6))


def test_a_decoder_with_a_wrong_length_is_refused(
    setting: MakeSetting, requests: MakeRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = Decoder(load_model(setting().target, dtype="float32", slots=4))
    sampler = DecoderSampler(decoder, setting(), "my decoder")
    generate = decoder.generate
    monkeypatch.setattr(decoder, "generate", lambda *args: _shortened(generate(*args)))
    with pytest.raises(AuditError, match="4 tokens where 5 were asked for"):
        sampler.sample(requests(2))


def _shortened(results):  # type: ignore[no-untyped-def]
    for result in results:
        result.token_ids.pop()
    return results


def test_errors(setting: MakeSetting, requests: MakeRequests, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="needs a draft"):
        TransformersSampler(setting(draft=None), "assisted")
    with pytest.raises(InvalidInput, match="needs a draft"):
        MultidraftSampler(setting(draft=None), "traversal")
    with pytest.raises(InvalidInput, match="Unknown mode 'beam'"):
        TransformersSampler(setting(), "beam")
    with pytest.raises(AuditError, match="cannot load the model"):
        TransformersSampler(setting(target=tmp_path))
    with (
        MultidraftSampler(setting(num_tokens=500), "ar") as sampler,
        pytest.raises(AuditError, match="exceed"),
    ):
        sampler.sample(requests(1))
