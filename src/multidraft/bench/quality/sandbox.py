"""Generated code, run where it can do no harm, or not at all; `jail` has the how."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from multidraft.errors import InvalidInput

_JAIL = Path(__file__).with_name("jail.py")
_PROBE = Path(__file__).with_name("probe.py")
_REFUSED = 120  # as in jail.py
_CPU_TIME_OVER = 128 + 24  # SIGXCPU


@dataclass(frozen=True)
class Limits:
    """What a program may use.

    Attributes:
        cpu, wall: seconds, whole numbers.
        memory: bytes of address space.
        file_size: bytes of each file it writes, its output included.
    """

    cpu: int = 10
    wall: int = 20
    memory: int = 1 << 30
    file_size: int = 16 << 20


LIMITS = Limits()


def run_isolated(program: str, limits: Limits = LIMITS) -> str:
    """Run a Python program to its end: "" if it got there, else why not.

    It is one process without threads, sees Python's standard library and nothing else, can write
    to an empty /tmp alone, has no network, no input and none of the environment, and is killed with
    all it started.

    Raises:
        InvalidInput: it cannot be isolated here, and was not run.
    """
    mark = secrets.token_hex(16)
    numbers = (limits.cpu, limits.wall, limits.memory, limits.file_size)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_JAIL), *map(str, numbers), mark],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            env={},
            start_new_session=True,
        )
        try:
            process.communicate(program.encode("utf-8", "replace"), timeout=limits.wall)
        except subprocess.TimeoutExpired:
            return "out of time"
        finally:
            _kill(process)
        said, wrong = _read(output), _read(errors)
    if process.returncode == _REFUSED and wrong.startswith(mark):
        raise InvalidInput(_refusal(wrong.removeprefix(mark)))
    if mark in said:
        return ""
    if process.returncode == _CPU_TIME_OVER:
        return "out of time"
    return _last_line(wrong) or f"ended early with status {process.returncode}"


def check_isolation() -> None:
    """Try to get out of the isolation in every way that it is to stop.

    Raises:
        InvalidInput: one of them works, or programs cannot be isolated here at all.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket() as server:
        secret = Path(folder) / "secret"
        secret.write_text("secret")
        server.bind(("127.0.0.1", 0))
        server.listen()
        call = f"try_all({str(secret)!r}, {server.getsockname()[1]})"
        program = f"{_PROBE.read_text(encoding='utf-8')}\n{call}\n"
        reason = run_isolated(program)
    if reason:
        raise InvalidInput(_refusal(reason))


def _refusal(reason: str) -> str:
    return (
        f"Generated code cannot be run in isolation here ({reason}), so it is not run; use a Linux "
        "machine that lets users make namespaces, or leave --allow-code-execution out."
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else ""
