"""Engines by name, and the options each takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multidraft.audit.samplers import open_sampler
from multidraft.audit.samplers.protocol import setting_from_json, setting_to_json
from multidraft.audit.setting import Setting
from multidraft.errors import InvalidInput


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        ("llama", {}, "Unknown engine 'llama'; choose one of multidraft, "),
        ("multidraft:best", {}, "Unknown mode 'best' of multidraft; its modes are: traversal, "),
        ("vllm:draft_model", {}, "modes are: plain, draft_model-probabilistic"),
        ("openai:chat", {}, "its modes are: none"),
        ("openai", {"model": "m"}, "openai needs base_url"),
        ("openai", {"base_url": "http://x", "model": "m", "workers": 2}, "takes no workers"),
        ("command", {}, "command needs command"),
        ("command", {"command": " "}, "The command is empty"),
        ("command", {"command": "run 'it"}, "cannot be read: No closing quotation"),
        ("multidraft", {"python": "/usr/bin/python3"}, "multidraft takes no python"),
        ("multidraft", {"workers": 0}, "at least 1, not 0"),
        ("multidraft:token", {}, "multidraft:token needs a draft model"),
        ("vllm:draft_model-greedy", {}, "needs a draft model"),
        ("transformers:assisted", {}, "needs a draft model"),
    ],
)
def test_what_cannot_be_opened(engine: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        open_sampler(engine, Setting(Path("target")), **options)


@pytest.mark.parametrize(
    "engine", ["multidraft:ar", "transformers", "transformers:lookup", "vllm", "vllm:ngram"]
)
def test_engines_that_need_no_draft(engine: str) -> None:
    open_sampler(engine, Setting(Path("target")))


@pytest.mark.parametrize("draft", [None, Path("b c")])
def test_a_setting_survives_the_way_to_a_worker(draft: Path | None) -> None:
    setting = Setting(Path("a"), draft, 0.7, 0.9, 3, 0.05, 4, 2, 6, 8)
    assert setting_from_json(setting_to_json(setting)) == setting
