"""Hostile programs get nowhere, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from multidraft.bench.quality import sandbox
from multidraft.bench.quality.sandbox import Limits, check_isolation, run_isolated
from multidraft.errors import InvalidInput
from tests.bench.quality.isolation import needs_isolation

pytestmark = needs_isolation
SMALL = Limits(cpu=5, wall=20, memory=1 << 28, file_size=1 << 20)


def _named(mark: str) -> list[psutil.Process]:
    """Processes with the mark in their command line."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if mark in (process.info["cmdline"] or [])
    ]


def _gone(mark: str) -> bool:
    """Whether they are gone, within the moment it takes the kernel."""
    until = time.monotonic() + 5
    while _named(mark) and time.monotonic() < until:
        time.sleep(0.02)
    return not _named(mark)


def _change_jail(folder, monkeypatch, old, new):
    jail = sandbox._JAIL.read_text()
    assert jail.count(old) == 1
    changed = folder / "jail.py"
    changed.write_text(jail.replace(old, new))
    monkeypatch.setattr(sandbox, "_JAIL", changed)


@pytest.fixture
def mark(monkeypatch):
    """What this test's processes are known by."""
    name = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    monkeypatch.setattr(sandbox.secrets, "token_hex", lambda _: name)
    yield name
    assert _gone(name)


def test_isolation_holds_here():
    check_isolation()


def test_a_harmless_program_runs():
    program = """
import collections, dataclasses, fractions, hashlib, itertools, math, random, sqlite3, typing
@dataclasses.dataclass
class Point:
    x: "int"
open("x", "w").write("x")
assert open("x").read() == "x" and Point(1).x == 1
print("日本語")
"""
    assert run_isolated(program, SMALL) == ""


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os\nwhile True: os.fork()", "PermissionError"),
        ("import subprocess\nsubprocess.run(['/bin/true'])", "PermissionError"),
        ("import threading\nthreading.Thread(target=int).start()", "can't start new thread"),
        ("x = bytearray(1 << 29)", "MemoryError"),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", "MemoryError"),
        ("while True: print('x' * 10000)", "File too large"),
        ("f = open('x', 'wb')\nwhile True: f.write(bytes(1 << 16))", "File too large"),
        (
            "for i in range(100): open(f'{i}', 'wb').write(bytes(1 << 20))",
            "No space left on device",
        ),
        ("import os\nfor i in range(100): os.open('program', 0)", "Too many open files"),
        ("import socket\nsocket.create_connection(('1.1.1.1', 53), 1)", "unreachable"),
        ("open('/etc/passwd')", "FileNotFoundError"),
        ("open('/proc/self/status')", "FileNotFoundError"),
        ("open('/usr/new', 'w')", "Read-only file system"),
        ("open('/new', 'w')", "Read-only file system"),
        ("import os\nos.setuid(0)", "Invalid argument"),
        ("import os\nos.chroot('/tmp')", "PermissionError"),
        ("input()", "EOFError"),
        ("import os\nraise SystemExit(' '.join(os.environ))", "HOME TMPDIR PYTHONHASHSEED"),
        ("import os\nos.kill(0, 9)", "ended early with status 137"),
    ],
)
def test_hostile_programs_fail(program, reason, mark):
    assert reason in run_isolated(program, SMALL)


@pytest.mark.parametrize(
    "function",
    [
        "unshare(0x10000000)",  # a new user namespace, for capabilities
        "mount(b'x', b'/tmp', b'tmpfs', 0, None)",
        "setns(0, 0)",
        "shmget(0, 1 << 20, 0o1600)",  # memory that no limit counts
        "memfd_create(b'x', 0)",
        "ptrace(16, 1, 0, 0)",  # the supervisor's
        "setresuid(0, 0, 0)",
    ],
)
def test_system_calls_that_are_refused(function, mark):
    program = f"import ctypes\nassert ctypes.CDLL(None).{function} == -1"
    assert run_isolated(program, SMALL) == ""


def test_an_endless_loop_is_ended_by_its_processor_time(mark):
    before = time.monotonic()
    assert run_isolated("while True: pass", Limits(cpu=1, wall=60)) == "out of time"
    assert time.monotonic() - before < 30


@pytest.mark.parametrize("alarm", ["signal.alarm(wall)", "signal.alarm(600)"])
def test_a_sleeper_is_ended_though_it_would_outlive_its_parent(mark, tmp_path, monkeypatch, alarm):
    # By the jail's own alarm, and by who started it alone.
    _change_jail(tmp_path, monkeypatch, "signal.alarm(wall)", alarm)
    program = """
import ctypes, os, signal, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # no signal when the parent dies
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
try:
    os.setsid()
except PermissionError:
    pass  # it leads a session already
time.sleep(600)
"""
    before = time.monotonic()
    assert run_isolated(program, Limits(wall=1)) == "out of time"
    assert time.monotonic() - before < 30


def test_the_supervisor_cannot_be_killed(mark):
    assert run_isolated("import os\nassert os.getppid() == 1\nos.kill(1, 9)", SMALL) == ""


def test_nothing_outlives_the_grader(mark):
    program = (
        "from multidraft.bench.quality import sandbox\n"
        f"sandbox.secrets.token_hex = lambda _: {mark!r}\n"
        "sandbox.run_isolated('import time; time.sleep(600)', sandbox.Limits(wall=600))"
    )
    grader = subprocess.Popen([sys.executable, "-c", program])
    until = time.monotonic() + 30
    while len(_named(mark)) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(_named(mark)) == 3  # the jail, its first process, the program
    grader.kill()
    grader.wait()
    assert _gone(mark)


def test_signals_do_not_leave_it(mark):
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        program = f"import os\nos.kill({sleeper.pid}, 9)"
        assert "ProcessLookupError" in run_isolated(program, SMALL)
        run_isolated("import os\nos.kill(-1, 9)", SMALL)
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("0x40000000 |", "", "there is a network"),
        ("_filter_system_calls()\n", "pass\n", "processes can be started"),
        ("resource.RLIMIT_AS: memory,", "", "memory is not limited"),
        ("resource.RLIMIT_FSIZE: file_size,", "", "files are not limited"),
        ("_read_only(target, recursive=True)", "pass", "Python's own files can be written"),
        ("_SYS_MOUNT_SETATTR = 442", "_SYS_MOUNT_SETATTR = 100000", "not implemented"),
        ("_NEW_NAMESPACES = ", "_NEW_NAMESPACES = 1 << 40 |", "unshare"),
    ],
)
def test_the_probe_finds_what_is_not_isolated(tmp_path, monkeypatch, old, new, reason):
    _change_jail(tmp_path, monkeypatch, old, new)
    with pytest.raises(InvalidInput, match=f"cannot be run in isolation here .*{reason}"):
        check_isolation()


def test_refused_where_no_jail_can_be_made(tmp_path, monkeypatch):
    broken = tmp_path / "jail.py"
    broken.write_text("raise ImportError('No module named resource')")
    monkeypatch.setattr(sandbox, "_JAIL", broken)
    with pytest.raises(InvalidInput, match=r"No module named resource.*so it is not run"):
        check_isolation()
