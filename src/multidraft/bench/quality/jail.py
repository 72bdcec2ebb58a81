"""Runs one Python program in isolation; a script of its own, started by `sandbox`.

    python -I -S jail.py CPU_SECONDS WALL_SECONDS MEMORY FILE_SIZE MARK < program

The program's standard output ends up with MARK in it if the program ran to its end.

Made of what Linux gives to any user: new user, mount, network, process and IPC namespaces; a root
directory of nothing but Python and the system's libraries, read-only, and an empty /tmp in memory;
resource limits; and a filter of system calls that refuses new processes and threads, and kinds of
memory that no limit counts. The first process of the namespace only waits, so that all ends with
it. Should any step fail, the program is not run, MARK and the reason are written to standard error,
and the status is `REFUSED`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from pathlib import Path

REFUSED = 120
_WORK_BYTES = 32 << 20  # of /tmp
_OPEN_FILES = 64
# Inside it is somebody without rights, whoever runs it: executing a program then drops every
# capability that the new namespaces gave.
_NOBODY = 65534

_LIBRARIES = ("/usr", "/bin", "/lib", "/lib32", "/lib64")

_NEW_NAMESPACES = 0x10000000 | 0x20000 | 0x40000000 | 0x20000000 | 0x8000000 | 0x4000000
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_NOSUID, _MS_NODEV = 0x1000, 0x4000, 1 << 18, 2, 4
_MNT_DETACH = 2
_SYS_MOUNT_SETATTR = 442  # the same everywhere
_AT_FDCWD, _AT_RECURSIVE, _ATTR_RDONLY_NOSUID = -100, 0x8000, 3
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38

# Audit architecture, and numbers of: clone, clone3, fork, vfork; shmget, semget, msgget, mq_open,
# memfd_create, memfd_secret; io_uring_setup, which starts threads; add_key, request_key, keyctl;
# ptrace, bpf, perf_event_open, userfaultfd.
_FILTERS = {
    "x86_64": (
        0xC000003E,
        (56, 435, 57, 58, 29, 64, 68, 240, 319, 447, 425, 248, 249, 250, 101, 321, 298, 323),
    ),
    "aarch64": (
        0xC00000B7,
        (220, 435, 194, 190, 186, 180, 279, 447, 425, 217, 218, 219, 117, 280, 241, 282),
    ),
}

# The program is a module like any other: its `if __name__ == "__main__"` is not run.
_RUN = """
import os, sys, types
name, mark = "answer", sys.argv[1].encode()
module = sys.modules[name] = types.ModuleType(name)
with open("program", encoding="utf-8") as file:
    code = compile(file.read(), name, "exec")
exec(code, module.__dict__)
os.write(1, mark)
"""

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    cpu, wall, memory, file_size = map(int, sys.argv[1:5])
    try:
        program = sys.stdin.buffer.read()
        _die_with_parent()
        user, group = os.getuid(), os.getgid()
        _call("unshare", _NEW_NAMESPACES)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{_NOBODY} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{_NOBODY} {group} 1")
    except Exception as error:
        _refuse(error)
    first = os.fork()  # the first process of the new namespace
    if first:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) % 256)
    try:
        _die_with_parent()
        # And should the parent be gone already, it still does not wait for ever.
        signal.signal(signal.SIGALRM, lambda *_: os._exit(REFUSED))
        signal.alarm(wall)
        python = _make_root()
        os.chdir("/tmp")
        Path("program").write_bytes(program)
        child = os.fork()
    except Exception as error:
        _refuse(error)
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(status if status >= 0 else 128 - status)
    try:
        os.setsid()
        _limit(cpu, memory, file_size)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        environment = {"HOME": "/tmp", "TMPDIR": "/tmp", "PYTHONHASHSEED": "0"}
        arguments = [python, "-s", "-S", "-B", "-c", _RUN, sys.argv[5]]
        _filter_system_calls()
        os.execve(python, arguments, environment)
    except Exception as error:
        _refuse(error)


def _die_with_parent() -> None:
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _make_root() -> str:
    """Change into a root directory of its own; the Python interpreter's path in it."""
    base = Path(sys.base_prefix).resolve()
    cover = Path("/tmp")  # any folder will do: it is covered in this namespace alone
    root = cover / "root"
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    # What is to be shown may lie in the folder that is covered.
    wanted = (base, Path("/etc/ld.so.cache"), Path("/dev/null"))
    kept = {path: os.open(path, os.O_PATH) for path in wanted if path.exists()}
    _mount("tmpfs", str(cover), "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
    for path in map(Path, _LIBRARIES):
        inside = root / path.relative_to("/")
        inside.parent.mkdir(exist_ok=True)
        if path.is_symlink():
            inside.symlink_to(path.readlink())
        elif path.is_dir():
            inside.mkdir()
            _show(path, inside)
    for path, descriptor in kept.items():
        inside = root / path.relative_to("/")
        if not inside.exists():
            inside.parent.mkdir(parents=True, exist_ok=True)
            if path == base:
                inside.mkdir()
            else:
                inside.touch()
            _show(Path(f"/proc/self/fd/{descriptor}"), inside)
        os.close(descriptor)
    (root / "tmp").mkdir(exist_ok=True)
    os.chdir(cover)
    _call("pivot_root", b".", b".")  # the old root now lies over the new one
    _call("umount2", b".", _MNT_DETACH)
    _read_only(Path("/"), recursive=False)
    # In a changed root no new user namespace can be made, which would give capabilities again.
    os.chroot("/root")
    os.chdir("/")
    _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={_WORK_BYTES},mode=700")
    return str(base / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")


def _show(source: Path, target: Path) -> None:
    _mount(str(source), str(target), None, _MS_BIND | _MS_REC)
    _read_only(target, recursive=True)


def _read_only(path: Path, recursive: bool) -> None:
    attributes = struct.pack("QQQQ", _ATTR_RDONLY_NOSUID, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    size = len(attributes)
    _call("syscall", _SYS_MOUNT_SETATTR, _AT_FDCWD, str(path).encode(), flags, attributes, size)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    name = kind.encode() if kind else None
    _call("mount", source.encode(), target.encode(), name, flags, options.encode())


def _limit(cpu: int, memory: int, file_size: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))  # told first, then killed
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: file_size,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


def _filter_system_calls() -> None:
    """Refuse the system calls of `_FILTERS`, and any other way to number them."""
    machine = platform.machine()
    if machine not in _FILTERS:
        raise OSError(errno.ENOSYS, f"no filter of system calls for {machine}")
    architecture, numbers = _FILTERS[machine]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allowed, denied = 0x7FFF0000, 0x00050000 | errno.EPERM
    checks = [(equal, number) for number in numbers] + [(at_least, 0x40000000)]  # x32's numbers
    code = [(load, 0, 0, 4), (equal, 0, len(checks) + 2, architecture), (load, 0, 0, 0)]
    for i, (test, number) in enumerate(checks):
        code.append((test, len(checks) - i, 0, number))
    code += [(give, 0, 0, allowed), (give, 0, 0, denied)]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(instructions))
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("prctl", _PR_SET_SECCOMP, 2, program, 0, 0)


def _call(function: str, *arguments: int | bytes | None) -> None:
    # Variadic functions read whole registers.
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if getattr(_libc, function)(*words) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def _refuse(error: Exception) -> None:
    reason = error.strerror if isinstance(error, OSError) else repr(error)
    os.write(2, f"{sys.argv[5]}{reason}".encode())
    os._exit(REFUSED)


if __name__ == "__main__":
    main()
