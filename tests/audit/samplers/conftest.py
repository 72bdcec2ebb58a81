"""A tiny model pair, requests for it, and settings small enough for quick tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multidraft.audit.setting import Request, Setting
from multidraft.audit.testmodels import Pair, build_pair

MakeSetting = Callable[..., Setting]
MakeRequests = Callable[..., list[Request]]


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return build_pair(tmp_path_factory.mktemp("pair") / "models")


@pytest.fixture
def setting(pair: Pair) -> MakeSetting:
    def make(**changes: object) -> Setting:
        return Setting(**{"target": pair.target, "draft": pair.draft, "batch": 4, **changes})

    return make


@pytest.fixture
def requests() -> MakeRequests:
    """``count`` requests, by turns of two prompts of different lengths."""

    def make(count: int, first_seed: int = 0) -> list[Request]:
        prompts = [((1, 2, 3), "bcd"), ((4, 0, 5, 1), "eafb")]
        return [Request(*prompts[i % 2], first_seed + i) for i in range(count)]

    return make
