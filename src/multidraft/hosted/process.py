"""One child process that speaks lines, and what is left to say once it has ended."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from multidraft.errors import EngineError

_GRACE = 5.0  # seconds to end after the end of input
_LAST_WORDS = 2.0  # seconds to finish writing to stderr
_KEPT_LINES = 20
_SHOWN = 300  # characters of a line of stderr

#: Lines as they come from any of several processes; None is the end of a process's output.
Lines = queue.SimpleQueue[tuple["Process", bytes | None]]


class Process:
    """A child in a process group of its own, so that Ctrl-C reaches only us, and that killing it
    takes its own children along.

    Its output is read by a thread as it comes: a child that answers while it is still being
    written to can never block on a full pipe.

    Args:
        command: program and arguments.
        environment: variables to set besides our own.
        lines: where its output goes.

    Raises:
        EngineError: there is no such program, or it cannot be run.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], lines: Lines):
        #: Ids of the requests it has not answered yet.
        self.outstanding: set[int] = set()
        self._errors: deque[bytes] = deque(maxlen=_KEPT_LINES)
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"{command[0]} cannot be run: {error.strerror}.") from error
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self._stdin = self._child.stdin
        self._output = _read_in_thread(self._child.stdout, lambda line: lines.put((self, line)))
        self._stderr = _read_in_thread(self._child.stderr, self._keep)

    def _keep(self, line: bytes | None) -> None:
        if line and line.strip():
            self._errors.append(line.strip())

    def write(self, text: str) -> None:
        """Write lines to its input.

        Raises:
            EngineError: it no longer reads.
        """
        try:
            self._stdin.write(text.encode())
            self._stdin.flush()
        except BrokenPipeError:
            raise self.ended() from None

    def ended(self) -> EngineError:
        """Why it ended, in one sentence: its exit status and the last line of its stderr."""
        self._stderr.join(_LAST_WORDS)
        try:
            status = self._child.wait(_LAST_WORDS)
        except subprocess.TimeoutExpired:
            how = "It closed its input or output too early"
        else:
            how = (
                f"It was ended by signal {-status}"
                if status < 0
                else f"It ended with exit status {status}"
            )
        last = self._errors[-1].decode(errors="replace") if self._errors else ""
        return EngineError(f"{how}: {last[:_SHOWN]}" if last else f"{how} and said nothing.")

    def close(self) -> None:
        """End it: at its end of input, or by force where it is still at work or takes too long."""
        if self.outstanding:
            self.kill()
        with suppress(OSError):  # what it has not read is of no use any more
            self._stdin.close()
        try:
            self._child.wait(_GRACE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()
            self._child.wait()
        for thread in (self._output, self._stderr):
            thread.join(_LAST_WORDS)

    def kill(self) -> None:
        """End it and its own children by force."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)


def _read_in_thread(pipe: IO[bytes], take: Callable[[bytes | None], None]) -> threading.Thread:
    """Hand on every line, and None at the end."""

    def read() -> None:
        with pipe:
            for line in pipe:
                take(line)
        take(None)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread
