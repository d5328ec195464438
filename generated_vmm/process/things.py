"""The things that a monitor owns, each removed by its identity.

For the reaper too: the standard library alone.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import stat
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from generated_vmm.process.removal import (
    PAUSE,
    has_mounts,
    identity,
    is_served,
    kill_all,
    lock,
    open_pidfd,
    remove_entries,
    remove_folder,
    removed,
    send,
    start_time_of,
)

STATE, NEW_STATE = "monitor.json", "monitor.new"


@dataclass(frozen=True)
class EmptyFolder:
    """A folder that is about to be created, or that others may use too: removed if it is empty."""

    path: str

    def remove(self, _: int | None = None) -> None:
        """Removes the folder if it is empty."""
        with contextlib.suppress(OSError):
            os.rmdir(self.path)


@dataclass(frozen=True)
class Folder:
    """A folder that is open and locked, removed through that descriptor.

    If it is `whole`, all its content is removed, else only fifos, sockets and the state, of these
    `names`. The folder itself is removed if it was `made`. `entry` is a symbolic link to it.
    """

    path: str
    names: list[str]
    whole: bool
    made: bool
    entry: str

    def remove(self, descriptor: int | None) -> None:
        """Removes the content, unless the lock was lost or something is mounted in the folder."""
        if descriptor is None or not lock(descriptor):
            return
        if self.whole and has_mounts(descriptor):
            return
        if self.whole:
            remove_entries(descriptor, keep=STATE)
        for name in (*self.names, NEW_STATE, STATE):
            with contextlib.suppress(FileNotFoundError):
                if self.whole or is_ours(name, descriptor):
                    os.unlink(name, dir_fd=descriptor)
        if self.made:
            with contextlib.suppress(FileNotFoundError):
                remove_folder(self.path, descriptor)
        with contextlib.suppress(OSError):
            if os.readlink(self.entry) == self.path:
                os.unlink(self.entry)


@dataclass(frozen=True)
class Session:
    """The processes of a session, known by its first process and the time of its start.

    With a `root` (device and inode), also those that have this folder as their root: a jailer that
    creates a PID namespace also creates another session.
    """

    leader: int
    start_time: int
    root: list[int] | None = None

    def has(self, pid: int) -> bool:
        """Whether a process is one of them."""
        with contextlib.suppress(OSError):
            if os.getsid(pid) == self.leader:
                return start_time_of(self.leader) in (None, self.start_time)
            return self.root is not None and identity(f"/proc/{pid}/root") == self.root
        return False

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in numbers if self.has(pid)]

    def kill(self) -> list[int]:
        """Kills every process; pidfds of those that have not ended yet."""
        killed = []
        for pid in self.pids():
            pidfd = open_pidfd(pid)
            # and not another that has the number now
            if pidfd is not None and send(pidfd, signal.SIGKILL if self.has(pid) else None):
                killed.append(pidfd)
        return killed

    def remove(self, _: int | None = None) -> None:
        """Kills the processes and waits for their end. Raises TimeoutError if one does not end."""
        kill_all(self.kill)


@dataclass(frozen=True)
class ControlGroup:
    """A control group that was created for one monitor; `known` is its identity once it exists."""

    path: str
    known: list[int] | None = None

    def kill(self) -> list[int]:
        """Kills the processes of the group; pidfds of those that have not ended yet."""
        with contextlib.suppress(FileNotFoundError), open(f"{self.path}/cgroup.procs") as file:
            pidfds = [pidfd for pid in file if (pidfd := open_pidfd(int(pid))) is not None]
            return [pidfd for pidfd in pidfds if send(pidfd, signal.SIGKILL)]
        return []

    def remove(self, _: int | None = None) -> None:
        """Removes the group; kills its processes if it is known to be the same group."""
        deadline = time.monotonic()
        with contextlib.suppress(FileNotFoundError):
            if identity(self.path) == self.known:
                kill_all(self.kill)
                deadline += 1.0  # processes that have just ended are counted for some time
        while not removed(self.path) and time.monotonic() < deadline:
            time.sleep(PAUSE)


@dataclass(frozen=True)
class Socket:
    """A unix socket outside of the monitor's folder, at a path that was free before."""

    path: str

    def remove(self, _: int | None = None) -> None:
        """Removes the socket if it belongs to this user and no process listens on it."""
        with contextlib.suppress(OSError):
            found = os.lstat(self.path)
            ours = stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid()
            if ours and not is_served(self.path):
                os.unlink(self.path)


@dataclass(frozen=True)
class Network:
    """A part of the host's network, as `generated_vmm.process.network` knows it."""

    what: dict[str, Any]

    def remove(self, _: int | None = None) -> None:
        """Removes it, by that module: it needs more than the standard library."""
        importlib.import_module("generated_vmm.process.network").remove(self.what)


Thing: TypeAlias = EmptyFolder | Folder | Session | ControlGroup | Socket | Network
Ward: TypeAlias = list[tuple[Thing, int | None]]
KINDS: dict[str, Callable[..., Thing]] = {
    kind.__name__: kind for kind in (EmptyFolder, Folder, Session, ControlGroup, Socket, Network)
}


def in_json(thing: Thing) -> list[Any]:
    """A thing without its descriptor, in a form for JSON."""
    return [type(thing).__name__, asdict(thing)]


def from_json(written: list[Any]) -> Thing:
    """The thing in such a form."""
    kind, fields = written
    return KINDS[kind](**fields)


def remove_all(ward: Ward) -> None:
    """Removes processes, then the other things, the newest first.

    Raises TimeoutError if a process does not end; things that remain stay in the list.
    """
    ward.sort(key=lambda owned: isinstance(owned[0], Session))
    while ward:
        thing, descriptor = ward[-1]
        thing.remove(descriptor)
        ward.pop()


def is_ours(name: str, folder: int) -> bool:
    """Whether an entry is of a kind that monitors create, rather than a user's file."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or name in (STATE, NEW_STATE)
