"""What `sandbox.check_isolation` runs inside the isolation: none of it may work."""

import mmap
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path


def try_all(secret: str, port: int) -> None:
    """Ends with a message if something works.

    Args:
        secret: a file outside.
        port: somebody listens at it outside.
    """
    attempts: dict[str, Callable[[], object]] = {
        "files outside can be read": Path(secret).read_text,
        "files outside can be written": lambda: Path(secret).write_text(""),
        "Python's own files can be written": lambda: Path(os.__file__).open("a").close(),
        "the root directory can be written": Path("/new").mkdir,
        "there is a network": lambda: socket.create_connection(("127.0.0.1", port), 1),
        "processes can be started": _fork,
        "threads can be started": threading.Thread(target=int).start,
        "memory is not limited": lambda: mmap.mmap(-1, 2 << 30),
        "files are not limited": lambda: Path("large").write_bytes(bytes(24 << 20)),
    }
    worked = []
    for what, attempt in attempts.items():
        try:
            attempt()
        except (OSError, RuntimeError, MemoryError):
            continue
        worked.append(what)
    os.kill(os.getppid(), 9)  # without effect, or nothing comes after it
    if worked:
        raise SystemExit("; ".join(worked))


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
