"""The worker script for vLLM, run as it is, with a module in vLLM's place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from multidraft.audit.samplers import open_sampler
from multidraft.errors import AuditError
from tests.audit.samplers.conftest import MakeRequests, MakeSetting

# Checks what it is given; its tokens are the seed modulo 8. Prints to stdout as vLLM does.
_FAKE = """
import json, os, sys
from types import SimpleNamespace

print("INFO starting")
os.system("echo INFO from a child")
assert "multidraft" not in sys.modules
assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
__version__ = "9.1"

class SamplingParams:
    def __init__(self, **given):
        self.__dict__.update(given)

class LLM:
    def __init__(self, **given):
        expected = json.loads(os.environ["EXPECTED"])
        wrong = {key: given[key] for key in expected if given[key] != expected[key]}
        if wrong:
            raise ValueError(f"wrong\\n arguments {wrong}")

    def generate(self, prompts, params, use_tqdm):
        print("INFO generating")
        assert len(prompts) == len(params) <= 4
        if params[0].min_p:
            raise ValueError("min_p is not supported")
        assert params[0].top_k == 2 and params[0].ignore_eos and params[0].temperature == 0.5
        return [
            SimpleNamespace(outputs=[SimpleNamespace(token_ids=[p.seed % 8] * p.max_tokens)])
            for p in params
        ]
"""


@pytest.fixture
def fake_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    (tmp_path / "vllm.py").write_text(_FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return monkeypatch


@pytest.mark.parametrize(
    ("mode", "name", "expected"),
    [
        ("plain", "vllm 9.1, plain", '{"speculative_config": null, "max_model_len": 128}'),
        (
            "ngram",
            "vllm 9.1, ngram, L 3",
            '{"speculative_config": {"method": "ngram", "num_speculative_tokens": 3,'
            ' "prompt_lookup_min": 1, "prompt_lookup_max": 2}}',
        ),
        (
            "draft_model-probabilistic",
            "vllm 9.1, draft_model-probabilistic, L 3",
            '{"dtype": "float32", "generation_config": "vllm", "max_num_seqs": 4, "seed": 0,'
            ' "speculative_config": {"method": "draft_model", "num_speculative_tokens": 3,'
            ' "model": "DRAFT", "draft_sample_method": "probabilistic"}}',
        ),
    ],
)
def test_the_script_starts_and_answers(
    fake_vllm: pytest.MonkeyPatch,
    setting: MakeSetting,
    requests: MakeRequests,
    mode: str,
    name: str,
    expected: str,
) -> None:
    chosen = setting(top_k=2, temperature=0.5)
    fake_vllm.setenv("EXPECTED", expected.replace("DRAFT", str(chosen.draft)))
    with open_sampler(f"vllm:{mode}", chosen, python=sys.executable) as sampler:
        assert sampler.name == name
        assert sampler.sample(requests(10)) == [(i % 8,) * 5 for i in range(10)]


def test_several_engines_have_different_seeds(
    fake_vllm: pytest.MonkeyPatch, setting: MakeSetting
) -> None:
    fake_vllm.setenv("EXPECTED", '{"seed": 0}')
    with (
        pytest.raises(AuditError, match=r"^vllm:plain did not start: .*arguments {'seed': 1}"),
        open_sampler("vllm", setting(), workers=2),
    ):
        pass


def test_what_vllm_refuses_is_told(
    fake_vllm: pytest.MonkeyPatch, setting: MakeSetting, requests: MakeRequests
) -> None:
    fake_vllm.setenv("EXPECTED", "{}")
    with (
        pytest.raises(AuditError, match=r"^vllm 9.1, plain: ValueError: min_p is not supported$"),
        open_sampler("vllm", setting(min_p=0.1)) as sampler,
    ):
        sampler.sample(requests(2))


def test_a_python_without_vllm_or_none_at_all(setting: MakeSetting) -> None:
    message = "did not start: ModuleNotFoundError: No module named 'vllm'"
    with pytest.raises(AuditError, match=message), open_sampler("vllm", setting()):
        pass
    with (
        pytest.raises(AuditError, match="/nowhere/python cannot be run: No such file"),
        open_sampler("vllm", setting(), python="/nowhere/python"),
    ):
        pass
