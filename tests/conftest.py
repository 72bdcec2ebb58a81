"""Tests run on one thread each: tiny models gain nothing from more, `pytest -n` uses the rest.

`make test` draws the same random examples every time, so that it answers the same for the same
code; `make test-all` draws new ones.
"""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("repeatable", derandomize=True)
