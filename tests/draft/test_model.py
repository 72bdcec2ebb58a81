"""Independent drafts: the law they are drawn from."""

from __future__ import annotations

import pytest
import torch

from multidraft import SamplingParams
from multidraft.chance import RandomChance
from multidraft.draft import ModelDrafter
from multidraft.draft.base import DraftRequest
from multidraft.tree import ROOT
from tests.draft.laws import random_model


@pytest.mark.parametrize(
    ("num_drafts", "own", "request_temperature", "effective"),
    [
        (3, None, 0.5, 0.5),
        (3, 2.0, 0.5, 2.0),
        (3, None, 0.0, 1.0),  # identical drafts would be no use
        (1, None, 0.0, 0.0),
        (3, 0.0, 0.7, 0.0),
    ],
)
def test_the_draft_has_a_temperature_of_its_own(num_drafts, own, request_temperature, effective):
    model = random_model(5, 6)
    drafter = ModelDrafter(model, num_drafts, 2, own)
    handle = drafter.open([0], SamplingParams(temperature=request_temperature), 6)
    tree = drafter.propose([DraftRequest(handle, [0], 2, 0, RandomChance((1,)))])[0]
    law = torch.as_tensor(model._law((0,)))
    if effective == 0.0:
        expected = torch.nn.functional.one_hot(law.argmax(), 6).double()
    else:
        expected = law ** (1 / effective)
        expected /= expected.sum()
    torch.testing.assert_close(tree.laws[ROOT], expected, rtol=0, atol=1e-12)
