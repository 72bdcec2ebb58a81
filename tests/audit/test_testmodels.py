"""The audit's own models: the same everywhere, as far apart as asked, ordinary to load."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from multidraft.audit import testweights
from multidraft.audit.alphabet import (
    ALPHABET,
    default_prompt,
    default_prompts,
    text_of,
    tokens_of,
)
from multidraft.audit.testmodels import build_pair
from multidraft.errors import InvalidInput
from multidraft.models.base import PREFIX, Extension
from multidraft.models.load import load_model

# Logits after default_prompt(8) of build_pair(folder) with its defaults.
TARGET = [-4.4186, 3.6865, 1.3357, -1.3580, -0.0324, 0.2985, -1.2621, 2.1858]
DRAFT = [-3.7132, 3.6334, 0.6518, -1.2247, -0.2443, -0.3083, -2.2078, 0.4144]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return build_pair(tmp_path_factory.mktemp("pairs") / "pair")


def model_in(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.no_grad()
def laws(model, contexts):
    return torch.softmax(model(contexts, use_cache=False).logits.double(), -1)


@torch.no_grad()
def test_the_weights_do_not_drift(pair):
    prompt = torch.tensor([default_prompt(8)])
    assert prompt.tolist() == [[2, 4, 3, 2, 4, 3]]
    for folder, expected in ((pair.target, TARGET), (pair.draft, DRAFT)):
        logits = model_in(folder)(prompt).logits[0, -1]
        torch.testing.assert_close(logits, torch.tensor(expected), atol=1e-4, rtol=0)


def test_neither_reads_nor_moves_the_global_random_state(pair, tmp_path):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    again = build_pair(tmp_path / "again")
    assert torch.rand(1) == expected
    for name in ("target", "draft"):
        first = (pair.folder / name / "model.safetensors").read_bytes()
        assert first == (again.folder / name / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "distance, vocab_size, seed", [(0.3, 8, 0), (0.6, 8, 0), (0.3, 32, 1), (0.6, 32, 1), (0, 8, 0)]
)
def test_distance_and_peak(tmp_path, distance, vocab_size, seed):
    """Over contexts of its own: prompts and continuations that `build_pair` did not see."""
    pair = build_pair(tmp_path / "pair", distance, vocab_size, seed)
    target, draft = model_in(pair.target), model_in(pair.draft)
    generator = torch.Generator().manual_seed(17)
    contexts = torch.randint(vocab_size, (600, 6), generator=generator)
    for _ in range(8):
        law = laws(target, contexts)[:, -1]
        contexts = torch.cat([contexts, torch.multinomial(law, 1, generator=generator)], 1)
    q, p = laws(target, contexts)[:, 5:], laws(draft, contexts)[:, 5:]
    assert float((q - p).abs().sum(-1).mean()) / 2 == pytest.approx(distance, abs=0.02)
    assert 0.5 < float(q.amax(-1).mean()) < 0.62


def test_every_context_has_its_own_law(pair):
    contexts = torch.tensor(list(itertools.product(range(8), repeat=3)))
    law = laws(model_in(pair.target), contexts)[:, -1]
    apart = torch.cdist(law, law, p=1) / 2 + torch.eye(len(law))
    assert float(apart.min()) > 1e-4


def test_an_ordinary_folder(pair):
    for folder in (pair.target, pair.draft):
        config = json.loads((folder / "config.json").read_text())
        assert config["architectures"] == ["LlamaForCausalLM"]
        assert config["vocab_size"] == 8 and config["head_dim"] == 32
        assert config["eos_token_id"] is config["bos_token_id"] is None
        defaults = json.loads((folder / "generation_config.json").read_text())
        assert defaults.keys() == {"transformers_version"}
        size = sum(file.stat().st_size for file in folder.iterdir())
        assert size < 1_000_000
    assert len(list(pair.folder.parent.iterdir())) == 1  # nothing is left beside it


def test_the_product_loads_it(pair):
    model = load_model(pair.target, dtype="float32", device="cpu")
    assert model.vocab_size == 8
    assert model.eos_token_ids == frozenset()
    prompt = list(default_prompt(8))
    slot = model.open()
    model.prefill(slot, prompt[:-1])
    logits = model.extend([Extension(slot, prompt[-1:], [PREFIX])])[0][0]
    torch.testing.assert_close(logits, torch.tensor(TARGET), atol=1e-4, rtol=0)


@pytest.mark.parametrize("vocab_size", [8, 32])
def test_one_character_per_token(tmp_path, vocab_size):
    pair = build_pair(tmp_path / "pair", vocab_size=vocab_size)
    tokenizer = AutoTokenizer.from_pretrained(pair.target)
    assert len(tokenizer) == vocab_size
    assert tokenizer.all_special_ids == []
    tokens = np.random.default_rng(0).integers(vocab_size, size=200).tolist()
    for skip in (False, True):
        text = tokenizer.decode(tokens, skip_special_tokens=skip)
        assert text == text_of(tokens)
        assert tokenizer.encode(text) == tokens
    assert tokens_of(text) == tuple(tokens)


def test_text_that_is_no_token():
    with pytest.raises(InvalidInput, match="' ', which is no token"):
        tokens_of("a b")
    assert len(set(ALPHABET)) == 32


def test_prompts():
    prompts = default_prompts(8, 20, seed=3)
    assert len(set(prompts)) == 20
    assert all(prompt[:3] == prompt[3:] and len(set(prompt)) == 3 for prompt in prompts)
    assert prompts[0] == default_prompt(8, seed=3)
    assert len(default_prompt(8, length=40)) == 40
    assert len(default_prompts(8, 8, length=1)) == 8
    for count, length in ((9, 1), (1, 0)):
        with pytest.raises(InvalidInput, match="different prompts"):
            default_prompts(8, count, length=length)


def test_a_folder_is_reused_only_for_the_same_pair(tmp_path):
    folder = tmp_path / "pair"
    folder.mkdir()  # an empty one will do
    build_pair(folder)
    weights = folder / "target" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert build_pair(folder).target == folder / "target"
    assert weights.stat().st_mtime_ns == before
    with pytest.raises(InvalidInput, match="something else"):
        build_pair(folder, seed=1)
    with pytest.raises(InvalidInput, match="something else"):
        build_pair(weights)


def test_an_interrupted_build_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("multidraft.audit.testmodels.save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_pair(tmp_path / "pair")
    assert list(tmp_path.iterdir()) == []


def test_the_quicker_of_two_builds_stays(tmp_path, monkeypatch):
    folder = tmp_path / "pair"
    build_models = testweights.build_models

    def overtaken(*args):
        monkeypatch.undo()
        build_pair(folder)
        return build_models(*args)

    monkeypatch.setattr("multidraft.audit.testmodels.build_models", overtaken)
    build_pair(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_what_cannot_be_built_is_refused(tmp_path):
    for vocab_size in (7, 33):
        with pytest.raises(InvalidInput, match="8 to 32 tokens"):
            build_pair(tmp_path / "pair", vocab_size=vocab_size)
    with pytest.raises(InvalidInput, match="must not be negative"):
        build_pair(tmp_path / "pair", seed=-1)
    for distance in (-0.1, 0.95, float("nan")):
        with pytest.raises(InvalidInput, match=r"from 0 to 0\.\d\d, not"):
            build_pair(tmp_path / "pair", distance)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InvalidInput, match="cannot be written"):
        build_pair(file / "pair")
    assert list(tmp_path.iterdir()) == [file]
