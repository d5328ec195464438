"""Starting one process, waiting for it and signalling it through its pidfd, never its number.

A pidfd names the process it was opened for, even after another process got its number
(pidfd_open(2)).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.removal import fields_of, is_ready, start_time_of

CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
SHELL = "/bin/sh"
# The process waits until its start is recorded: a line on descriptor 3 lets it become the program;
# the end of that pipe, because the caller died, ends it.
GATE = 'read -r _ <&3 && exec 3<&- && cd -- "$0" && exec "$@"'
ELF_HEADER = 20  # bytes up to the machine's number
ELF_MACHINE = slice(18, 20)
SCRIPT = b"#!"
USER_TIME, SYSTEM_TIME, RESIDENT_PAGES = 11, 12, 21  # fields of /proc/PID/stat after the name


@dataclass(frozen=True)
class Usage:
    """What a process has used: processor time since its start, and memory in use.

    `at` is `time.monotonic()` in seconds: the processor's share between two usages is the
    difference of their `cpu_seconds` divided by the difference of their `at`. `memory_bytes` is
    resident memory; of the guest's memory, only pages that it has touched count.
    """

    at: float
    cpu_seconds: float
    memory_bytes: int


class Descriptor:
    """A file descriptor that is closed when the last reference to it is gone.

    Threads share it without a lock: a signal handler may interrupt a thread that holds a lock.
    """

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class Child:
    """A process that this one started or attached to.

    `returncode` is as in `subprocess`; None while the process runs, and forever if it is the child
    of another process.
    """

    def __init__(self, pid: int, start_time: int | None = None) -> None:
        """Raises ProcessLookupError if the process is gone, or another process has its number."""
        self.pid = pid
        self._pidfd: Descriptor | None = Descriptor(os.pidfd_open(pid))
        self.start_time = start_time_of(pid) or 0
        self.returncode: int | None = None
        if start_time not in (None, self.start_time):
            raise ProcessLookupError(f"process {pid} is another one")

    @property
    def pidfd(self) -> int:
        """The descriptor; -1 once the process is closed."""
        return -1 if self._pidfd is None else self._pidfd.number

    @property
    def running(self) -> bool:
        """Whether the process has not ended, and is not closed."""
        pidfd = self._pidfd
        return pidfd is not None and not is_ready(pidfd.number, 0)

    def collect(self) -> None:
        """Collects the exit status of a process that has ended, so that no zombie stays."""
        pidfd = self._pidfd
        with contextlib.suppress(ChildProcessError):  # not ours, or collected already
            if pidfd is not None:
                found = os.waitid(os.P_PIDFD, pidfd.number, os.WEXITED | os.WNOHANG)
                if found is not None:
                    ended_by_itself = found.si_code == os.CLD_EXITED
                    self.returncode = found.si_status if ended_by_itself else -found.si_status

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process has ended."""
        pidfd = self._pidfd
        if pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd.number, number)

    def wait(self, seconds: float | None) -> bool:
        """Waits for the end and collects the status; returns whether it ended in time."""
        pidfd = self._pidfd
        if pidfd is not None and not is_ready(pidfd.number, seconds):
            return False
        self.collect()
        return True

    def forget_if_ended(self) -> bool:
        """Collects and closes a process that has ended; returns whether it has."""
        ended = self.wait(0)
        if ended:
            self.close()
        return ended

    def usage(self) -> Usage | None:
        """The process's usage; None if it has ended."""
        fields = fields_of(self.pid)
        if fields is None or not self.running:
            return None
        ticks = int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])
        memory = int(fields[RESIDENT_PAGES]) * os.sysconf("SC_PAGE_SIZE")
        return Usage(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), memory)

    def close(self) -> None:
        """Closes the descriptor; safe to call twice."""
        self._pidfd = None


class Gate:
    """A process that has begun, and waits for permission before it becomes the program."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, outlets: Sequence[int]
    ) -> None:
        """Begins the process with these descriptors as its standard input, output and error.

        Raises OSError if the system cannot start a process.
        """
        closed, self._gate = os.pipe()
        try:
            self.child = begin([SHELL, "-c", GATE, cwd, *argv], env, (*outlets, closed))
        except BaseException:
            self.close()
            raise
        finally:
            os.close(closed)

    def open(self) -> None:
        """Lets the process become the program."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, b"\n")

    def close(self) -> None:
        """Ends the process unless it has become the program."""
        os.close(self._gate)


def begin(argv: Sequence[str], env: Mapping[str, str], descriptors: Sequence[int]) -> Child:
    """Starts a program that waits for its caller. Raises OSError, and leaves no process then."""
    pid = spawn(argv, env, descriptors)
    try:
        return Child(pid)
    except BaseException:  # for instance, there are no more descriptors
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)  # it waits, so the number is its own
            os.waitpid(pid, 0)
        raise


def spawn(argv: Sequence[str], env: Mapping[str, str], descriptors: Sequence[int]) -> int:
    """Starts a program with these descriptors as its first ones, and returns its number.

    It leads a session of its own: only the caller gets a Ctrl+C of the terminal, and then ends it
    in order. Raises `OSError` if the system does not start it.
    """
    with contextlib.ExitStack() as stack:
        actions: list[tuple[int, int, int] | tuple[int, int]] = []
        for theirs, mine in enumerate(descriptors):
            above = fcntl.fcntl(mine, fcntl.F_DUPFD_CLOEXEC, len(descriptors))
            stack.callback(os.close, above)
            actions.append((os.POSIX_SPAWN_DUP2, above, theirs))
        inherited = ((os.POSIX_SPAWN_CLOSE, each) for each in _inherited(len(descriptors)))
        return os.posix_spawn(
            argv[0],
            list(argv),
            env,
            file_actions=[*actions, *inherited],
            setsid=True,
            setsigmask=(),
            setsigdef=CHANGED_BY_PYTHON,
        )


def _inherited(first: int) -> Iterator[int]:
    """The descriptors that the program would inherit, such as a server's listening socket."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            if int(name) >= first and os.get_inheritable(int(name)):
                yield int(name)


def find_program(name: str, env: Mapping[str, str] | None) -> str:
    """The absolute path of a program. Raises `MonitorStartError` if it cannot be run."""
    found = shutil.which(name, path=None if env is None else env.get("PATH"))
    if found is None:
        reason = "is not executable" if Path(name).is_file() else "does not exist"
        raise MonitorStartError(f"{name!r} {reason}")
    with contextlib.suppress(PermissionError):  # the system may run what we may not read
        beginning, ours = _beginning_of(found), _beginning_of("/proc/self/exe")
        is_ours = beginning[:6] == ours[:6] and beginning[ELF_MACHINE] == ours[ELF_MACHINE]
        if not (is_ours or beginning.startswith(SCRIPT)):  # the shell would read it as a script
            raise MonitorStartError(f"{found!r} is not a program for this machine")
    return os.path.abspath(found)


def _beginning_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(ELF_HEADER)
