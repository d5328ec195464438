"""What happens at a moment: to a caller, its nursery or its keepers, or by a monitor's user.

Each event is a function that is called before the system call of that name, in the process and the
thread that make it. The standard library alone: the nursery uses it too.
"""

import contextlib
import errno
import json
import os
import select
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.vmm.process.counting import Moment
from tests.vmm.process.kernel import catches, cgroups_of, children, has_children, processes, user_of

Event: TypeAlias = "Callable[[Stage, str, tuple[Any, ...]], object]"

MAY_FAIL = {
    errno.ENOSPC: {"fsync", "link", "mkdir", "mkfifo", "open", "rename", "symlink", "write"},
    errno.EMFILE: {"dup", "memfd_create", "open", "pidfd_open", "pipe", "posix_spawn"},
    errno.EAGAIN: {"fork"},
}
ALL_KILLED = "the caller, the nursery and the keeper get SIGKILL"
NURSERY_FIRST = "the nursery gets SIGKILL, and later the keeper gets SIGKILL"
CANCELLED, RIVAL = "the task is cancelled", "the same is started"
AT_A_LINE = "a handler raises at a line"
SWAPPED, FORKED, ANOTHER_VSOCK = (
    *("the monitor swaps files", "the monitor forks", "another vsock is made"),
)
UNJAILED_FILES = ("vm/api.socket", "vm/console.in", "vm/console.out", "v.sock")
PATIENCE = 5.0  # seconds for a monitor to do something
VSOCK = json.dumps({"guest_cid": 3, "uds_path": "/another.sock"}).encode()


@dataclass
class Stage:
    """Where events happen."""

    folder: Path
    moment: Moment


class Interrupted(Exception):
    """What the caller's handler of SIGUSR1 raises."""


def signal_caller(number: signal.Signals) -> Event:
    def send(stage: Stage, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # others are still at work after its end
            os.kill(stage.moment.caller, number)

    return send


def signal_nursery(number: signal.Signals) -> Event:
    def send(stage: Stage, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            if (nursery := stage.moment.nursery()) is not None:
                os.kill(nursery, number)

    return send


def signal_keepers(number: signal.Signals) -> Event:
    def send(stage: Stage, *_: object) -> None:
        nursery = stage.moment.nursery()
        if nursery is not None and os.getpid() not in (nursery, stage.moment.caller):
            os.kill(os.getpid(), number)  # in a keeper, or in what becomes a program
        for pid in [] if nursery is None else children(nursery):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    return send


def kill_together(*events: Event) -> Event:
    """The last one is this process, if it is one of them."""

    def kill(stage: Stage, *given: Any) -> None:
        for event in events:
            event(stage, *given)

    return kill


def kill_nursery_first(stage: Stage, *_: object) -> None:
    """The keepers are orphans when they are killed. Their nursery cannot wait for its own end."""
    nursery = stage.moment.nursery()
    if nursery is None:
        return
    with contextlib.suppress(OSError):
        ended = os.pidfd_open(nursery)
        keepers = sorted(children(nursery), key=os.getpid().__eq__)  # this process is the last one
        pidfds = [os.pidfd_open(pid) for pid in keepers]
        is_nursery = os.getpid() == nursery
        if is_nursery and os.fork():
            signal.pause()
        os.kill(nursery, signal.SIGKILL)
        select.select([ended], [], [])
        for number in pidfds:
            signal.pidfd_send_signal(number, signal.SIGKILL)
            os.close(number)
        os.close(ended)
        if is_nursery:
            os._exit(0)


def start_rival(stage: Stage, *_: object) -> None:
    with open(stage.moment.place / "rival", "wb", buffering=0) as rival:
        rival.write(b"\n")


def fail_with(error: int) -> Event:
    def fail(_: Stage, name: str, given: tuple[Any, ...]) -> None:
        makes_nothing = name == "open" and not given[1] & os.O_CREAT
        if name in MAY_FAIL[error] and not (error == errno.ENOSPC and makes_nothing):
            raise OSError(error, os.strerror(error))

    return fail


# What a hostile monitor does, in the places that belong to its user


def swap_files(stage: Stage, *_: object) -> None:
    """Links to a file and a folder of the host take the place of all that the user may replace.

    Not of the log and the metrics without a jail: the monitor itself would write to the file.
    """
    sockets = [stage.folder / name for name in UNJAILED_FILES]
    jailed = [path for root in roots(stage.folder) for path in root.glob("*")]
    for path in (*sockets, *jailed):
        with contextlib.suppress(OSError):
            mode = path.lstat().st_mode
            if path in jailed or stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                link = path.with_name(f"{path.name}.link")
                link.symlink_to(stage.folder if stat.S_ISDIR(mode) else stage.folder / "linked")
                if stat.S_ISDIR(mode):
                    path.rename(path.with_name(f"{path.name}.moved"))
                link.replace(path)


def fork(stage: Stage, *_: object) -> None:
    """The monitor forks: in a jail out of its session, where the stand-in cannot run."""
    for pid, is_jailed in processes(stage.folder):
        if is_jailed:
            return fork_in_jail(pid, user_of(stage.folder))
        if catches(pid, signal.SIGUSR1):
            deadline = time.monotonic() + PATIENCE
            os.kill(pid, signal.SIGUSR1)
            while not has_children(pid) and time.monotonic() < deadline:
                os.sched_yield()
    return None


def fork_in_jail(pid: int, user: int) -> None:
    """A process with the monitor's root and control groups, but with a session of its own."""
    ready, told = os.pipe()
    if os.fork() == 0:
        with contextlib.suppress(OSError):
            for folder in cgroups_of(pid):
                with contextlib.suppress(OSError):
                    (folder / "cgroup.procs").write_text(str(os.getpid()))
            os.setsid()
            os.chroot(f"/proc/{pid}/root")
            os.setgid(user)
            os.setuid(user)
            os.closerange(0, 4096)
            while True:
                signal.pause()
        os._exit(1)
    os.close(told)
    os.read(ready, 1)  # nothing: the end, once it is what it should be
    os.close(ready)


def make_another_vsock(stage: Stage, *_: object) -> None:
    """The jailed user sets up a vsock device, of whose socket the caller has not heard."""
    head = b"PUT /vsock HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(VSOCK)
    for root in roots(stage.folder):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(f"{root}/api.socket")
            connection.sendall(head + VSOCK)
            connection.recv(4096)


def roots(folder: Path) -> Iterator[Path]:
    """The roots of jails that belong to their users."""
    for root in folder.glob("jails/*/*/root"):
        with contextlib.suppress(OSError):
            if root.stat().st_uid in (user_of(folder), os.geteuid()):
                yield root


KILLED_CALLER = signal_caller(signal.SIGKILL)
KILLED_NURSERY = signal_nursery(signal.SIGKILL)
KILLED_KEEPERS = signal_keepers(signal.SIGKILL)
EVENTS: dict[str, Event] = {
    "nothing": lambda *_: None,
    "the caller gets SIGINT": signal_caller(signal.SIGINT),
    "the caller gets SIGTERM": signal_caller(signal.SIGTERM),
    "the caller gets SIGKILL": KILLED_CALLER,
    "the nursery gets SIGTERM": signal_nursery(signal.SIGTERM),
    "the nursery gets SIGKILL": KILLED_NURSERY,
    "the keeper gets SIGTERM": signal_keepers(signal.SIGTERM),
    "the keeper gets SIGKILL": KILLED_KEEPERS,
    "the caller and the nursery get SIGKILL": kill_together(KILLED_CALLER, KILLED_NURSERY),
    "the caller and the keeper get SIGKILL": kill_together(KILLED_CALLER, KILLED_KEEPERS),
    ALL_KILLED: kill_together(KILLED_CALLER, KILLED_NURSERY, KILLED_KEEPERS),
    NURSERY_FIRST: kill_nursery_first,
    "a handler raises": signal_caller(signal.SIGUSR1),
    AT_A_LINE: lambda *_: None,  # of the caller's main thread: see `Line`
    CANCELLED: signal_caller(signal.SIGUSR2),
    "the disk is full": fail_with(errno.ENOSPC),
    "descriptors are used up": fail_with(errno.EMFILE),
    "no process can be forked": fail_with(errno.EAGAIN),
    RIVAL: start_rival,
    SWAPPED: swap_files,
    FORKED: fork,
    ANOTHER_VSOCK: make_another_vsock,
}
