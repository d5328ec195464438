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
from functools import partial
from typing import Any, TypeAlias

from generated_vmm.process.removal import (
    HELD,
    PAUSE,
    has_mounts,
    identity,
    is_served,
    kill_all,
    kill_group,
    lock,
    open_pidfd,
    remove_entries,
    remove_folder,
    removed,
    send,
    start_time_of,
)

STATE, NEW_STATE = "monitor.json", "monitor.new"
PROCESS_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP of linux/pidfd.h


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

    The number of the session is that of its first process, the leader. Once the leader is collected
    and the last process has ended, a stranger's session can get the number. So the number counts
    only while the leader exists, and for the call that ends the session at the leader's end. With a
    `root` (device and inode), the processes that have this folder as their root count too: a jailer
    that creates a PID namespace also creates another session.
    """

    leader: int
    start_time: int
    root: list[int] | None = None

    @property
    def has_leader(self) -> bool:
        """Whether the leader exists, at least as a zombie."""
        return start_time_of(self.leader) == self.start_time

    def has(self, pid: int, *, has_just_ended: bool = False) -> bool:
        """Whether a process is one of them; `has_just_ended` if the leader may be collected."""
        with contextlib.suppress(OSError):
            if os.getsid(pid) == self.leader:
                leaders = (self.start_time, None) if has_just_ended else (self.start_time,)
                if start_time_of(self.leader) in leaders:
                    return True
            return self.root is not None and identity(f"/proc/{pid}/root") == self.root
        return False

    def pids(self, *, has_just_ended: bool = False) -> list[int]:
        """The numbers of the processes."""
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in numbers if self.has(pid, has_just_ended=has_just_ended)]

    def kill(self, *, has_just_ended: bool = False) -> list[int]:
        """Kills every process; pidfds of those that have not ended yet."""
        self._kill_group()
        killed = []
        for pid in self.pids(has_just_ended=has_just_ended):
            pidfd = open_pidfd(pid)
            if pidfd is None:
                continue
            is_ours = self.has(pid, has_just_ended=has_just_ended)  # or another has the number now
            if send(pidfd, signal.SIGKILL if is_ours else None):
                killed.append(pidfd)
        return killed

    def _kill_group(self) -> None:
        """Kills the leader's process group at once, which a scan cannot if it forks all the time.

        Linux 6.9 or newer; a pidfd never names another group.
        """
        pidfd = open_pidfd(self.leader)
        if pidfd is not None:
            with contextlib.suppress(OSError):
                if self.has_leader:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL, None, PROCESS_GROUP)
            os.close(pidfd)

    def end(self) -> None:
        """Kills the processes at the leader's end, and waits for their end.

        To be called once, while the leader exists or has just ended. Raises TimeoutError if a
        process does not end.
        """
        # a jail's processes are known by their root
        kill_all(partial(self.kill, has_just_ended=self.root is None))

    def remove(self, _: int | None = None) -> None:
        """Kills the processes and waits for their end. Raises TimeoutError if one does not end."""
        if self.has_leader or self.root is not None:
            self.end()


@dataclass(frozen=True)
class ControlGroup:
    """A control group that was created for one monitor; `known` is its identity once it exists."""

    path: str
    known: list[int] | None = None

    def end(self) -> bool:
        """Kills the processes of the group; returns whether it is known to be the same group.

        Raises TimeoutError if a process does not end.
        """
        with contextlib.suppress(FileNotFoundError):
            group = os.open(self.path, HELD)
            try:
                if identity(".", group) == self.known:
                    kill_all(partial(kill_group, group))
                    return True
            finally:
                os.close(group)
        return False

    def remove(self, _: int | None = None) -> None:
        """Removes the group with its processes; one that may be another only if it is empty."""
        seconds = 1.0 if self.end() else 0.0  # ended processes are counted for some time
        deadline = time.monotonic() + seconds
        while not removed(self.path) and time.monotonic() < deadline:
            time.sleep(PAUSE)

    def take_in(self, pid: int) -> None:
        """Moves a child of this process, which is not collected, into the group."""
        with open(f"{self.path}/cgroup.procs", "w") as file:
            file.write(str(pid))


@dataclass(frozen=True)
class Socket:
    """A unix socket outside of the monitor's folder, at a path that was free before."""

    path: str

    def remove(self, _: int | None = None) -> None:
        """Removes the socket if it belongs to this user and no process listens on it."""
        with contextlib.suppress(OSError, ValueError):  # no file can have a path with NUL
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
    """Removes control groups, sessions, then the other things, the newest first.

    Raises TimeoutError if a process does not end; things that remain stay in the list.
    """
    ward.sort(key=lambda owned: (isinstance(owned[0], ControlGroup), isinstance(owned[0], Session)))
    while ward:
        thing, descriptor = ward[-1]
        thing.remove(descriptor)
        ward.pop()


def end_processes(ward: Ward) -> None:
    """Ends the processes at the end of the first one; its sessions leave the list.

    Raises TimeoutError if a process does not end.
    """
    for kind in (ControlGroup, Session):
        for thing, _ in ward:
            if isinstance(thing, kind):
                thing.end()
    ward[:] = [owned for owned in ward if not isinstance(owned[0], Session)]


def is_ours(name: str, folder: int) -> bool:
    """Whether an entry is of a kind that monitors create, rather than a user's file."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or name in (STATE, NEW_STATE)
