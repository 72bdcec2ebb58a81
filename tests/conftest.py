"""Tests run on one thread each: tiny models gain nothing from more, `pytest -n` uses the rest.

`make test` draws the same random examples every time, so that it answers the same for the same
code; `make test-all` draws new ones.
"""

import os
import signal

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start
settings.register_profile("repeatable", derandomize=True)


def pytest_configure() -> None:
    """A shell starts what runs in its background with interruptions ignored, and so would be the
    processes whose interruption is tested."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def costs_of_their_own(tmp_path_factory):
    """Controllers measure anew: what earlier runs of the tests found would steer these."""
    from multidraft.engine.control import costs

    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setattr(costs, "cache_folder", lambda: folder)
        yield
