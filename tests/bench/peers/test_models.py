"""The models that peers share."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from multidraft.bench.peers.models import PeerModels
from multidraft.models import load_model


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_weights_are_in_memory_not_in_a_file(pair, tmp_path):
    shutil.copytree(pair[0], tmp_path / "copy")
    models = PeerModels(load_model(pair[0], dtype="float32"), tmp_path / "copy", None)
    assert next(models.target.parameters()).dtype.itemsize == 4
    assert str(tmp_path / "copy") not in Path("/proc/self/maps").read_text()
