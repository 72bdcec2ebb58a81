"""That runs record the calls of their rounds as they were made."""

from __future__ import annotations

import pytest

from multidraft import load_model
from multidraft.bench.methods import parse_method
from multidraft.bench.ours import EngineContestant
from multidraft.sampling import SamplingParams


@pytest.mark.parametrize(
    "method", ["ar", "token", "spectr-gbv", "hybrid+traversal", "lookup+traversal"]
)
def test_calls(pair, monkeypatch, method):
    target, draft = (load_model(name, dtype="float32", slots=1) for name in pair)
    made = {"target": [], "draft": []}

    def watch(model, name):
        extend = model.extend

        def counted(extensions):
            made[name] += [len(extension.tokens) for extension in extensions]
            return extend(extensions)

        monkeypatch.setattr(model, "extend", counted)

    watch(target, "target")
    watch(draft, "draft")
    number = 1 if method == "token" else 3
    contestant = EngineContestant(parse_method(method), target, draft, number, 4)
    prompt = list(range(30, 95)) * 2  # too long for the prompt itself to be such a call
    params = SamplingParams(temperature=0.7, max_tokens=24, seed=1)
    (outcome,) = contestant.decode([prompt], [params], lambda: False)
    assert outcome.error == "" and len(outcome.calls) == len(outcome.rounds)
    assert [positions for positions, *_ in outcome.calls] == made["target"]
    rows = [row for _, *rows in outcome.calls for row in rows]
    assert len(rows) == len(made["draft"])
    # A round's first call also scores what the draft had not seen yet.
    first = {sum(len(calls) - 1 for calls in outcome.calls[:i]) for i in range(len(outcome.calls))}
    for i, (counted, row) in enumerate(zip(made["draft"], rows, strict=True)):
        assert row == 1 <= counted if i in first else row == counted
    if "lookup" in method or method == "ar":
        assert not rows
    else:
        assert max(rows) > 1 or number == 1
