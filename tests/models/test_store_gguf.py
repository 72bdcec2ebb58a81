"""Local GGUF files: what the conversion keeps, and what it refuses."""

import json
import os

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from multidraft.errors import UnsupportedModel
from multidraft.models.store import list_models, resolve

from .store_gguf import tiny_llama, vocabulary, write_gguf


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIDRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "cache"


def spell(tokenizer, text):
    return tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])


def test_conversion_keeps_weights_tokenizer_and_template(tmp_path):
    folder = resolve(str(write_gguf(tmp_path / "tiny.gguf")), progress=False)

    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    weights = model.state_dict()
    assert all(torch.equal(weights[name], w) for name, w in tiny_llama().state_dict().items())
    assert model.generation_config.eos_token_id == [2, 0]

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("hello")["input_ids"][0] == vocabulary().index("he")  # no beginning token
    assert spell(tokenizer, "<|im_start|>he<|im_end|>") == ["<|im_start|>", "he", "<|im_end|>"]
    assert tokenizer.model_max_length == 128
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "he"}], tokenize=False)
    assert chat == "<|im_start|>he<|im_end|>"


@pytest.mark.parametrize(
    ("cut", "spelling"),
    [
        ("smollm", ["ĊĊ", "Ġ", "5", "Ġ", "1", "2"]),  # digits one by one, cut off first
        ("gpt-2", ["ĊĊ", "Ġ5", "Ġ", "12"]),
    ],
)
def test_digits_are_cut_as_the_published_tokenizer_does(tmp_path, cut, spelling):
    folder = resolve(str(write_gguf(tmp_path / "tiny.gguf", cut=cut)), progress=False)
    assert spell(AutoTokenizer.from_pretrained(folder), "\n\n 5 12") == spelling


def test_qwen_text_is_composed_and_llama_3_text_begins(tmp_path):
    qwen = resolve(str(write_gguf(tmp_path / "qwen.gguf", cut="qwen2")), progress=False)
    composed = AutoTokenizer.from_pretrained(qwen)
    assert composed("e\u0301")["input_ids"] == composed("\u00e9")["input_ids"]
    llama = resolve(str(write_gguf(tmp_path / "llama.gguf", cut="llama-bpe")), progress=False)
    assert spell(AutoTokenizer.from_pretrained(llama), "he") == ["<|im_start|>", "he"]


def test_a_file_is_converted_once_and_anew_when_it_changes(tmp_path, cache):
    path = write_gguf(tmp_path / "tiny.gguf")
    first = resolve(str(path), progress=False)
    made = (first / "config.json").stat().st_mtime_ns
    assert resolve(str(path), progress=False) == first
    assert (first / "config.json").stat().st_mtime_ns == made

    os.utime(path, ns=(1, 1))
    second = resolve(str(path), progress=False)
    assert second != first
    assert not first.exists()
    assert [model.path for model in list_models() if model.name == str(path)] == [second]
    path.unlink()
    [model] = [model for model in list_models() if model.name == str(path)]
    assert (model.state, model.path) == ("file is gone", second)
    assert not [each for each in (cache / "partial").iterdir() if each.suffix != ".lock"]


def test_files_beside_the_gguf_do_not_leak_in(tmp_path):
    (tmp_path / "chat_template.jinja").write_text("wrong")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": 77}))
    folder = resolve(str(write_gguf(tmp_path / "tiny.gguf")), progress=False)
    assert AutoTokenizer.from_pretrained(folder).chat_template != "wrong"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cut": "unheard-of"}, "cuts text in a way that is not known here"),
        ({"cut": None}, "cuts text in a way that is not known here"),
        ({"architecture": "rwkv6"}, "architecture 'rwkv6'"),
        ({"split__count": 3}, "one piece of several"),
        ({"llama__rope__scaling__type": "yarn"}, "scales its rotary positions"),
        ({"without": "blk.1.ffn_up.weight"}, "lacks weights"),
        ({"more": "blk.1.attn_q.bias"}, "numbers and transformers takes"),
        ({"llama__attention__sliding_window": 64}, "sliding window of 64 tokens"),
    ],
)
def test_what_would_be_lost_is_refused_and_leaves_nothing(tmp_path, cache, changes, says):
    path = write_gguf(tmp_path / "tiny.gguf", **changes)
    with pytest.raises(UnsupportedModel, match=says):
        resolve(str(path), progress=False)
    assert not list(cache.glob("models/*"))
    assert not [each for each in cache.glob("partial/*") if each.suffix != ".lock"]


def test_a_file_that_is_no_gguf_or_is_cut_short(tmp_path):
    other = tmp_path / "notes.gguf"
    other.write_text("not a model")
    with pytest.raises(UnsupportedModel, match="not a GGUF file"):
        resolve(str(other))
    whole = write_gguf(tmp_path / "tiny.gguf").read_bytes()
    for length in (4, 10, 500, len(whole) - 5000):
        other.write_bytes(whole[:length])
        with pytest.raises(UnsupportedModel, match="damaged or cut short"):
            resolve(str(other))
