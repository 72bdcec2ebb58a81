"""Whether this machine lets anybody be isolated, found out without the code under test."""

from __future__ import annotations

import shutil
import subprocess

import pytest

_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "true")

needs_isolation = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(_UNSHARE, capture_output=True).returncode != 0,
    reason="needs a Linux that lets users make namespaces",
)
