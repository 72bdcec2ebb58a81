"""Configurations: what they mean, and which key is wrong where they mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from multidraft.bench.config import Pair, make_config, read_config
from multidraft.bench.methods import parse_method
from multidraft.errors import InvalidInput
from multidraft.models.layer_choice import write_layers

GOOD = {
    "pairs": [{"target": "big", "draft": "small"}],
    "data": ["gsm8k"],
    "methods": ["ar", "spectr-gbv"],
}


def test_yaml(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "pairs:\n  - {target: models/big, draft: small}\n  - {name: alone, target: big}\n"
        "data: mgsm\nmethods: ar\nnum_drafts: [1, 3]\ntemperature: 0\nchat: false\n"
    )
    config = make_config(read_config(path), "run.yaml")
    assert config.pairs == (
        Pair("big + small", "models/big", "small"),
        Pair("alone", "big", None),
    )
    assert len(config.data) == 11
    assert config.num_drafts == (1, 3) and config.temperature == (0.0,)
    assert config.chat is False and config.max_tokens == 128


SHIPPED = Path(__file__).parents[2] / "docs" / "benchmarks" / "configs"


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_configurations_of_the_docs(path):
    config = make_config(read_config(path), str(path))
    assert config.prompts >= 12 and "ar" in config.methods


def test_what_is_written_reads_back():
    values = {"data_dir": "here", "vllm_python": "here/python", "draft_length": [2, 5]}
    config = make_config({**GOOD, **values, "methods": ["ar", "token@3"]}, "test")
    assert make_config(config.to_dict(), "test") == config


def test_pairs(tmp_path):
    file = tmp_path / "layers.json"
    write_layers(file, "a", [0, 1, 5])
    pairs = [
        {"target": "m/a", "draft": f"self:{file}"},
        {"target": "m/a", "draft": "self:0-2,4"},
        {"target": "m/a", "draft": "m/b", "draft_head": 500},
        {"target": "m/a", "draft": "m/b", "draft_dtype": "int4"},
        {"target": "m/a", "draft": "m/b", "draft_head": "lists/mine.npz"},
        {"target": "m/a", "draft": "m/b", "draft_head": "lists/mine.npz@64"},
    ]
    config = make_config({**GOOD, "pairs": pairs}, "test")
    file.unlink()  # what it said is known
    assert make_config(config.to_dict(), "test") == config
    assert [(pair.name, pair.draft) for pair in config.pairs] == [
        ("a + self:0,1,5", "self:0,1,5"),
        ("a + self:0,1,2,4", "self:0,1,2,4"),
        ("a + b (head 500)", "m/b"),
        ("a + b (int4)", "m/b"),
        ("a + b (head mine.npz)", "m/b"),
        ("a + b (head mine.npz@64)", "m/b"),
    ]
    lists = Path("lists/mine.npz").absolute()
    assert [p.draft_head for p in config.pairs[2:]] == ["500", None, str(lists), f"{lists}@64"]
    assert [p.head_list for p in config.pairs[2:]] == [None, None, lists, lists]
    assert [pair.models for pair in config.pairs[:4]] == [
        ["m/a"],
        ["m/a"],
        ["m/a", "m/b"],
        ["m/a", "m/b"],
    ]
    # Runs of before there was a head or a dtype to choose go on.
    assert not {"draft_head", "draft_dtype"} & set(make_config(GOOD, "test").to_dict()["pairs"][0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"promts": 3}, "unknown key 'promts'; did you mean 'prompts'"),
        ({"data": None}, "'data' is missing"),
        ({"methods": []}, "'methods' is missing"),
        ({"methods": ["spectre"]}, "methods: Unknown method 'spectre'"),
        ({"methods": ["transformers:fast"]}, "transformers:plain"),
        ({"methods": ["hybrid+token"]}, "'token' does not take the trees of 'hybrid'"),
        ({"methods": ["nobody+traversal"]}, "Unknown method 'nobody\\+traversal'"),
        ({"num_drafts": 0}, "num_drafts must be a whole number of at least 1, not 0"),
        ({"draft_length": [4, "six"]}, "draft_length must be a whole number"),
        ({"temperature": -1}, "temperature: "),
        ({"temperature": "hot"}, "temperature: "),
        ({"prompts": True}, "prompts must be a whole number"),
        ({"chat": "yes please"}, "chat must be true or false"),
        ({"pairs": ["big"]}, "pairs must be a list of pairs"),
        ({"pairs": [{"target": "a", "drft": "b"}]}, "unknown key 'drft' in a pair"),
        ({"pairs": [{"target": "a"}, {"target": "a"}]}, "two pairs have the name 'a'"),
        ({"pairs": [{"target": "a"}]}, "'spectr-gbv' needs a draft model"),
        ({"pairs": [{"target": "a", "draft_head": 8}]}, "draft_head but no draft"),
        ({"pairs": [{"target": "a", "draft_dtype": "int4"}]}, "draft_dtype but no draft"),
        ({"pairs": [{"target": "a", "draft": "self:3-x"}]}, "Cannot read the layers of self:3-x"),
        ({"pairs": [{"target": "a", "draft": "self:-"}]}, "'-' in self:- is no layer number"),
        (
            {
                "pairs": [{"target": "a", "draft": "self:0"}],
                "methods": ["transformers:assisted"],
            },
            "a draft model with weights of its own",
        ),
        ({"methods": ["transformers:plain"], "batch": 2}, "set batch to 1"),
        ({"methods": ["vllm:draft"], "batch": 2}, "set batch to 1"),
        ({"methods": ["vllm:fast"]}, "vllm runs as vllm:plain, vllm:draft, vllm:ngram"),
        ({"methods": ["llama:plain"]}, "another engine \\(transformers:MODE with plain, assist"),
        ({"methods": ["ar@3"]}, "'ar' has no draft length; leave out '@3'"),
        ({"methods": ["flashspec:auto@3"]}, "'flashspec:auto' has no draft length"),
        ({"methods": ["token@"]}, "after '@' comes a draft length, such as 'token@3'"),
        ({"methods": ["token@0"]}, "after '@' comes a draft length"),
        (
            {"pairs": [{"target": "a"}], "methods": ["vllm:draft@3"]},
            "'vllm:draft' needs a draft model",
        ),
    ],
)
def test_refused(changes, message):
    with pytest.raises(InvalidInput, match=message) as refusal:
        make_config({**GOOD, **changes}, "run.yaml")
    assert str(refusal.value).startswith("run.yaml: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [("pairs: [", "line 1: not YAML"), ("just words", "keys and values")],
)
def test_refused_files(tmp_path, content, message):
    path = tmp_path / "run.yaml"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=message):
        read_config(path)
    with pytest.raises(InvalidInput, match="Cannot read"):
        read_config(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("ar", [(0, 0)]),
        ("token", [(1, 4), (1, 6)]),
        ("spectr-gbv", [(2, 4), (3, 4), (2, 6), (3, 6)]),
        ("hybrid+traversal", [(2, 4), (3, 4), (2, 6), (3, 6)]),
        ("auto", [(0, 0)]),
        ("transformers:plain", [(0, 0)]),
        ("transformers:assisted", [(1, 4), (1, 6)]),
        ("transformers:assisted@3", [(1, 3)]),
        ("spectr-gbv@5", [(2, 5), (3, 5)]),
        ("vllm:plain", [(0, 0)]),
        ("vllm:draft", [(1, 4), (1, 6)]),
        ("vllm:ngram@2", [(1, 2)]),
        ("flashspec:auto", [(0, 0)]),
        ("flashspec:draft@2", [(1, 2)]),
    ],
)
def test_methods_run_once_over_what_they_do_not_have(name, shapes):
    assert parse_method(name).shapes([2, 3], [4, 6]) == shapes
