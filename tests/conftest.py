"""Tests run on one thread each: tiny models gain nothing from more, `pytest -n` uses the rest."""

import torch

torch.set_num_threads(1)
