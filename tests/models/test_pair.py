"""A draft as users name it: where it goes, and in which numbers."""

from __future__ import annotations

import pytest
import torch

from multidraft import InvalidInput, load_draft
from multidraft.models import TransformersModel
from multidraft.models.pair import check_draft, check_draft_here
from tests.models.tiny import CONFIGS, build


@pytest.fixture
def target():
    return TransformersModel(build(CONFIGS["llama"]).to(torch.bfloat16), slots=1)


@pytest.fixture
def asked(monkeypatch):
    """How drafts were to be loaded."""
    options = []
    monkeypatch.setattr("multidraft.models.pair.load_model", lambda _, **o: options.append(o))
    monkeypatch.setattr("multidraft.models.pair.share_vocabulary", lambda draft, target: draft)
    return options


@pytest.mark.parametrize("can", [True, False])
def test_a_draft_goes_where_its_target_is(target, asked, monkeypatch, can):
    """And has four bits by itself where that is faster."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("multidraft.models.pair.can_be_four_bit", lambda device: can)
    load_draft("any", target, dtype="auto")
    load_draft("any", target, device="meta")
    assert [str(each["device"]) for each in asked] == ["cpu", "meta"]
    assert [each["four_bit"] for each in asked] == [can, False]
    assert [each["dtype"] for each in asked] == [torch.bfloat16] * 2


def test_four_bits_that_cannot_be_had(monkeypatch):
    monkeypatch.setattr("multidraft.models.four_bit.can_be_four_bit", lambda device: False)
    with pytest.raises(InvalidInput, match="need a CPU with AVX2 alone, or with AVX-512"):
        check_draft_here("any", dtype="int4", device="cpu")
    assert check_draft("any", dtype="int4") == "any"  # a run of another machine may be read
    with pytest.raises(InvalidInput, match="need a CPU with AVX2 alone, or with AVX-512"):
        TransformersModel(build(CONFIGS["llama"]).to(torch.bfloat16), four_bit=True)
    with pytest.raises(InvalidInput, match="a model in bfloat16"):
        TransformersModel(build(CONFIGS["llama"]), four_bit=True)


def test_layers_of_the_target_have_its_dtype(target):
    with pytest.raises(InvalidInput, match="shares the target's weights"):
        load_draft("self:0", target, dtype="int4")
