"""What is asked of the kernel: descriptors, locks and their holders, children, control groups."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import starmap

TYPE_CHECKING = False  # `typing` is so large that each keeper has 0.1 MiB more with it
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import Self as Self
else:
    Any = Self = object

ABOVE = 10  # descriptors that are not those of a program
RESET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
PAUSE = 0.005  # seconds between two checks
LONGEST_END = 30.0  # seconds for a killed process to free its memory
LONGEST_POLL = 2**31 - 1  # milliseconds, 24 days
NETWORK = 0x40000000  # CLONE_NEWNET (setns(2))
OURS = "/proc/self/ns/net"
SUBREAPER = 36  # prctl(2)
PROCESS_LIMIT = "the limit of processes is reached (ulimit -u, pids.max)"
_prctl, _setns = (getattr(ctypes.CDLL(None, use_errno=True), each) for each in ("prctl", "setns"))


class Refused(Exception):
    """A monitor cannot be started, found or removed, for the reason in the text."""


class Descriptor:
    """A file descriptor that is closed with the last reference to it.

    It makes the system call itself: `Descriptor(os.open, path, flags)`. Call and list are one step
    of the interpreter, so no signal handler that raises comes between the kernel and the owner.
    """

    def __init__(self, call: Callable[..., int], *given: object, **named: object) -> None:
        self._numbers: list[int] = []
        self._numbers.extend(starmap(partial(call, **named), [given]))

    @property
    def number(self) -> int:
        """The number of the descriptor."""
        return self._numbers[0]

    def close(self) -> None:
        """Closes it before its time: for a lock."""
        while self._numbers:
            os.close(self._numbers.pop())

    __del__ = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def become_subreaper() -> None:
    """Orphans among the descendants of this process become its children."""
    _prctl(SUBREAPER, 1, 0, 0, 0)


def end_with_us(pid: int, reading: int) -> None:
    """Kills a process that holds this end of a pipe when we, who hold the other, have ended.

    Source: fcntl(2), F_SETSIG.
    """
    fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
    fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)


def join(namespace: int) -> None:
    """Moves the calling thread into a network namespace. Raises OSError."""
    if _setns(namespace, NETWORK):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def is_elsewhere(namespace: int) -> bool:
    """Whether it is a network namespace other than ours."""
    return os.fstat(namespace).st_ino != os.stat(OURS).st_ino


def ready_of(numbers: Iterable[int], seconds: float | None = None) -> set[int]:
    """The descriptors that become readable in time; a pidfd does at the end of its process."""
    waiting = select.poll()
    for each in numbers:
        waiting.register(each, select.POLLIN)
    limit = None if seconds is None else max(0, min(seconds * 1000, LONGEST_POLL))
    return {each for each, _ in waiting.poll(limit)}


def is_ready(descriptor: int, seconds: float | None = 0) -> bool:
    """Whether a descriptor becomes readable in time."""
    return bool(ready_of([descriptor], seconds))


def reason(error: OSError) -> str:
    """Why the system refused a call, in words."""
    if error.errno == errno.EAGAIN:
        return PROCESS_LIMIT
    return error.strerror or str(error)


class About:
    """Names the option and the path that the system refuses in a block."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, OSError):
            raise Refused(f"{' '.join(self._words)}: {reason(error)}") from error


# Files


def identity(path: str | int) -> list[int]:
    """The device and the inode at a path, or of a descriptor. Links are not followed."""
    found = os.fstat(path) if isinstance(path, int) else os.lstat(path)
    return [found.st_dev, found.st_ino]


def mount_of(descriptor: int) -> bytes:
    """The number of the mount that a file was reached by (proc(5), fdinfo)."""
    return _line_of(f"/proc/self/fdinfo/{descriptor}", b"mnt_id:")


def _line_of(path: str, name: bytes) -> bytes:
    file = Descriptor(os.open, path, os.O_RDONLY)
    lines = os.read(file.number, 65_536).split(b"\n")
    return next((line for line in lines if line.startswith(name)), b"")


# Locks


def lock(descriptor: int) -> bool:
    """Locks a file, unless another holds its lock. The lock ends with the last descriptor."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holders(descriptor: int) -> dict[int, Descriptor]:
    """A pidfd for each process that can be seen to hold the lock of a file, by its number."""
    known, found = identity(descriptor), {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            pidfd = Descriptor(os.pidfd_open, pid)
            if pid != os.getpid() and _holds(pid, known):
                found[pid] = pidfd
    return found


def _holds(pid: int, known: list[int]) -> bool:
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            # a file without a lock may be on a disk that hangs
            if _line_of(f"/proc/{pid}/fdinfo/{number}", b"lock:"):
                found = os.stat(f"/proc/{pid}/fd/{number}")
                if [found.st_dev, found.st_ino] == known:
                    return True
    return False


def end_holders(descriptor: int, path: str) -> None:
    """Kills the processes that hold the lock of a file, whose keeper is dead, and takes the lock.

    Raises `Refused` if they cannot be seen from here, or do not end.
    """
    deadline = time.monotonic() + LONGEST_END
    while not lock(descriptor):
        found = holders(descriptor)
        for pidfd in found.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd.number, signal.SIGKILL)
            is_ready(pidfd.number, deadline - time.monotonic())
        if not lock(descriptor) and (not found or time.monotonic() > deadline):
            raise Refused(f"{path} is in use by {in_words(found)}")


def in_words(pids: Iterable[int]) -> str:
    """The processes that hold a lock, for people."""
    named = ", ".join(f"process {pid}" for pid in pids)
    elsewhere = "a process that cannot be seen from here: in another PID namespace or container"
    return named or f"{elsewhere}, or of another user"


# Processes


def spawn(argv: Sequence[str], env: Mapping[str, str], given: Iterable[int]) -> int:
    """Starts a program with these descriptors as its first ones; its number. Raises OSError.

    It has a session of its own, so that a terminal's Ctrl+C reaches the caller alone. It is
    spawned, not forked: a fork copies what both touch.
    """
    duplicate = partial(Descriptor, fcntl.fcntl)
    above = [duplicate(each, fcntl.F_DUPFD_CLOEXEC, ABOVE) for each in given]
    actions = [(os.POSIX_SPAWN_DUP2, each.number, at) for at, each in enumerate(above)]
    how: Any = {"setsid": True, "setsigmask": (), "setsigdef": RESET}
    return os.posix_spawn(argv[0], [*argv], env, file_actions=actions, **how)


def children(parent: int) -> list[int]:
    """The children of a process; ours are never other processes, as long as we collect none.

    Source: proc(5), /proc/PID/task/TID/children.
    """
    with open(f"/proc/{parent}/task/{parent}/children", "rb") as file:
        return [int(pid) for pid in file.read().split()]


def is_descendant(pid: int) -> bool:
    """Whether a process is a child of this one, or of such a process. Raises OSError."""
    while pid not in (0, os.getpid()):
        try:
            pid = int(_line_of(f"/proc/{pid}/status", b"PPid:").split()[1])
        except (FileNotFoundError, ProcessLookupError, IndexError):  # it has ended
            return False
    return pid > 0


def kill_children() -> dict[int, int]:
    """Kills our children, and theirs as they become ours; the statuses by number."""
    ended: dict[int, int] = {}
    while pids := children(os.getpid()):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for _ in pids:
            pid, status = os.waitpid(-1, 0)
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


def exit_in_words(status: int | None) -> str:
    """How a process ended, for people."""
    if status is None:
        return "with an exit status that is not known"
    if status >= 0:
        return f"with exit status {status}"
    names = [each.name for each in signal.Signals if each == -status]
    return f"by signal {names[0] if names else -status}"
