"""A round in words."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from multidraft.cli.explain import Explainer
from multidraft.engine import Progress
from multidraft.engine.control.base import Choice
from multidraft.tree import ROOT, DraftTree


@pytest.mark.parametrize(
    ("asked", "drafted", "words"),
    [
        (False, 0, "round 1: nothing drafted, 0 accepted (why)"),
        (True, 0, "round 1: nothing sure enough in 1 draft call, 0 accepted (why)"),
        (True, 1, "round 1: 1 drafted in 1 draft call, 0 accepted (why)"),
    ],
)
def test_what_was_drafted(asked, drafted, words):
    tree = DraftTree.rooted_at(7)
    if asked:
        tree.laws[ROOT] = torch.ones(9) / 9
    for token in range(drafted):
        tree.add(ROOT, token, None)
    out = io.StringIO()
    decoder = SimpleNamespace(target=SimpleNamespace(tokenizer=None))
    explain = Explainer(decoder, Console(file=out, width=100))
    explain(Progress(None, [5], ["bonus"], "", Choice(4, reason="why"), tree, []))
    first, *_, last = out.getvalue().splitlines()
    assert first == words and last == "then 5 (bonus)"
