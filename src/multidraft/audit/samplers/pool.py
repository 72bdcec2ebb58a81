"""Several processes of one engine, sharing out the batches."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from multidraft.audit.samplers.answers import split
from multidraft.audit.samplers.protocol import read_answer, request_line
from multidraft.audit.setting import Answer, Request, Setting
from multidraft.errors import AuditError, EngineError
from multidraft.hosted.messages import read_message
from multidraft.hosted.process import Lines, Process


class ProcessPool:
    """A sampler whose requests are answered by processes that speak the `protocol`.

    What a batch holds does not depend on which process is free first.

    Args:
        name: as shown to the user, until a process announces its own.
        commands: program and arguments of each process.
        setting: how to sample, and how many requests make a batch.
        environment: variables to set for them besides our own.
        announces: whether a process says its name once it is ready, as the project's workers do.
    """

    def __init__(
        self,
        name: str,
        commands: Sequence[Sequence[str]],
        setting: Setting,
        environment: Mapping[str, str],
        announces: bool,
    ):
        self.name = name
        self._commands = commands
        self._setting = setting
        self._environment = environment
        self._announces = announces
        self._lines: Lines = queue.SimpleQueue()
        self._processes: list[Process] = []
        self._next_id = 0

    def __enter__(self) -> ProcessPool:
        try:
            for command in self._commands:
                self._processes.append(Process(command, self._environment, self._lines))
            if self._announces:
                names = [self._receive()[1]["name"] for _ in self._processes]
                self.name = str(names[0])
        except EngineError as error:
            self.__exit__()
            raise AuditError(f"{self.name} did not start: {error}") from error
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            while self._processes:
                self._processes.pop().close()
        finally:  # a second Ctrl-C, while one of them was waited for
            while self._processes:
                self._processes.pop().kill()

    def sample(self, requests: Sequence[Request]) -> list[Answer]:
        """See `Sampler`. After an error, or Ctrl-C, the pool can only be left."""
        try:
            return self._sample(requests)
        except EngineError as error:
            raise AuditError(f"{self.name}: {error}") from error

    def _sample(self, requests: Sequence[Request]) -> list[Answer]:
        first = self._next_id
        self._next_id += len(requests)
        waiting = deque(split(requests, self._setting.batch))
        sent, answers = first, dict[int, Answer]()
        idle = deque(self._processes)
        while len(answers) < len(requests):
            while waiting and idle:
                batch = waiting.popleft()
                self._send(idle.popleft(), sent, batch)
                sent += len(batch)
            process, message = self._receive()
            number = message.get("id")
            if type(number) is not int or number not in process.outstanding:
                raise AuditError(f"It answered a request it does not hold: id {number!r}.")
            answers[number] = read_answer(message, self._setting)
            process.outstanding.remove(number)
            if not process.outstanding:
                idle.append(process)
        return [answers[first + i] for i in range(len(requests))]

    def _send(self, process: Process, first: int, batch: Sequence[Request]) -> None:
        process.outstanding.update(range(first, first + len(batch)))
        lines = [
            request_line(first + i, request, len(batch) - 1 - i, self._setting)
            for i, request in enumerate(batch)
        ]
        process.write("".join(lines))

    def _receive(self) -> tuple[Process, dict[str, Any]]:
        """The next message of any process."""
        process, line = self._lines.get()
        if line is None:
            raise process.ended()
        return process, read_message(line)
