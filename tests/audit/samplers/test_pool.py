"""The pool of processes, with small programs in place of an engine."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from multidraft.audit.samplers import ProcessPool, open_sampler
from multidraft.audit.setting import Sampler
from multidraft.errors import AuditError
from tests.audit.samplers import programs
from tests.audit.samplers.conftest import MakeRequests, MakeSetting


@pytest.fixture
def open_program(setting: MakeSetting, tmp_path: Path):  # type: ignore[no-untyped-def]
    def open_it(program: str, workers: int = 1, **changes: object) -> Sampler:
        command = programs.command(tmp_path, program)
        return open_sampler("command", setting(**changes), workers=workers, command=command)

    return open_it


def children() -> set[int]:
    """Processes this one started and has not reaped."""
    return {child.pid for child in psutil.Process().children()}


@pytest.mark.parametrize("workers", [1, 3])
def test_answers_line_by_line(open_program, requests: MakeRequests, workers: int) -> None:  # type: ignore[no-untyped-def]
    with open_program(programs.LINE_BY_LINE, workers) as sampler:
        assert sampler.name.startswith("command ")
        for first in (0, 100):
            answers = sampler.sample(requests(30, first))
            assert answers == [((first + i) % 8,) * 5 for i in range(30)]


@pytest.mark.parametrize("workers", [1, 2])
def test_answers_in_batches_as_text_in_another_order(  # type: ignore[no-untyped-def]
    open_program, requests: MakeRequests, workers: int
) -> None:
    with open_program(programs.BATCHING, workers) as sampler:
        assert sampler.sample(requests(30)) == ["abcdefgh"[i % 8] * 5 for i in range(30)]


def test_no_pipe_fills_up(open_program, requests: MakeRequests) -> None:  # type: ignore[no-untyped-def]
    with open_program(programs.TALKATIVE, batch=2000) as sampler:
        assert len(sampler.sample(requests(2000))) == 2000


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (programs.CRASHING, "exit status 1: SystemError: the engine fell over"),
        (programs.CHATTING, "no JSON object: hello"),
        (programs.NESTED, r"no JSON object: \[\[\["),
        (programs.LIST_AS_ID, r"a request it does not hold: id \[\d\]"),
        (programs.TOO_SHORT, "4 tokens where 5 were asked for"),
        (programs.REFUSING, "top_k is not supported"),
        (programs.TWICE, r"a request it does not hold: id \d"),
        (programs.WITHOUT_ANSWER, 'needs a list token_ids or a string text.*"tokens"'),
        ("    sys.exit(0)\n", "exit status 0 and said nothing"),
        ("    os.kill(os.getpid(), 9)\n", "ended by signal 9"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_leaves_no_process(  # type: ignore[no-untyped-def]
    open_program, requests: MakeRequests, program: str, message: str
) -> None:
    before = children()
    with pytest.raises(AuditError, match=message) as raised, open_program(program, 2) as sampler:
        sampler.sample(requests(10))
    assert "\n" not in str(raised.value)
    assert children() <= before


def test_an_error_that_is_null_is_none(open_program, requests: MakeRequests) -> None:  # type: ignore[no-untyped-def]
    with open_program(programs.NO_ERROR) as sampler:
        assert sampler.sample(requests(1)) == [(0,) * 5]


def test_a_command_is_told_its_models(
    setting: MakeSetting, requests: MakeRequests, tmp_path: Path
) -> None:
    command = programs.command(tmp_path, programs.ARGUMENTS) + " {target} -d={draft} {draft_length}"
    where = setting()
    with open_sampler("command", where, command=command) as sampler:
        assert sampler.sample(requests(1)) == [f"{where.target} -d={where.draft} 3"]


def test_a_second_interruption_leaves_no_process(  # type: ignore[no-untyped-def]
    open_program, requests: MakeRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes while the first of two that do not end by themselves is waited for."""
    before = children()
    sampler = open_program(programs.STUBBORN, 2)
    with pytest.raises(KeyboardInterrupt), sampler:
        sampler.sample(requests(10))
        started = children() - before
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert len(started) == 2
    deadline = time.monotonic() + 5
    while any(map(_runs, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_runs, started))


def test_a_program_that_does_not_exist(setting: MakeSetting) -> None:
    with (
        pytest.raises(AuditError, match="no-such-engine cannot be run: No such file"),
        open_sampler("command", setting(), command="./no-such-engine --fast"),
    ):
        pass


def test_interruption_kills_at_once_even_grandchildren(  # type: ignore[no-untyped-def]
    open_program, requests: MakeRequests, tmp_path: Path
) -> None:
    before = children()
    pid_file = tmp_path / "pid"
    program = (
        "    import subprocess\n"
        "    child = subprocess.Popen(['sleep', '60'])\n"
        f"    open({str(pid_file)!r}, 'w').write(str(child.pid))\n"
    ) + programs.SILENT
    started = time.monotonic()

    def interrupt() -> None:
        while not (pid_file.exists() and pid_file.read_text()):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt), open_program(program) as sampler:
        sampler.sample(requests(10))
    assert time.monotonic() - started < 10
    assert children() <= before
    # Only the child is waited for; the system takes its time with what the signal reaches besides.
    grandchild, deadline = int(pid_file.read_text()), time.monotonic() + 10
    while _runs(grandchild) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(grandchild)


def _runs(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet reaped by its parent does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_workers_of_our_own(setting: MakeSetting, requests: MakeRequests) -> None:
    """Two processes give what one does, and both are what they say."""
    from multidraft.audit.samplers import MultidraftSampler

    with open_sampler("multidraft:ar", setting(), workers=2) as sampler:
        answers = sampler.sample(requests(12))
        name = sampler.name
    reference = MultidraftSampler(setting(), "ar")
    assert (answers, name) == (reference.sample(requests(12)), reference.name)


def test_a_worker_that_cannot_start_says_why(setting: MakeSetting, tmp_path: Path) -> None:
    with (
        pytest.raises(AuditError, match="plain did not start: transformers cannot load"),
        open_sampler("transformers", setting(target=tmp_path)),
    ):
        pass


def test_the_environment_reaches_the_processes(
    setting: MakeSetting, requests: MakeRequests, tmp_path: Path
) -> None:
    program = '    tell({"id": asked["id"], "text": os.environ["FLAVOUR"]})\n'
    command = shlex.split(programs.command(tmp_path, program))
    assert command[0] == sys.executable
    with ProcessPool("it", [command], setting(), {"FLAVOUR": "plum"}, announces=False) as sampler:
        assert sampler.sample(requests(1)) == ["plum"]
