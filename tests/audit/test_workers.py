"""How many processes an audit starts."""

from __future__ import annotations

import os

import pytest

from multidraft.audit.blackbox import workers_for


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_as_many_as_the_cores_that_are_allowed(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 7})
    assert workers_for("multidraft:traversal") == workers_for("transformers:assisted") == 3
    assert workers_for("vllm:ngram") is None


def test_all_where_the_system_does_not_say(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert workers_for("multidraft") == 64
