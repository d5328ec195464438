"""The folder of a monitor: held open and locked from before its first file until its last is gone.

Everything in it is reached through its descriptor, without following links. What the monitor owns
besides, such as its processes and control groups, is in one list with it: the ward.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import socket
import stat
import struct
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar, cast

from generated_vmm.process.child import Child, find_program
from generated_vmm.process.errors import MonitorError, MonitorExited, MonitorStartError
from generated_vmm.process.reaper import (
    LONGEST_END,
    NEW_STATE,
    PAUSE,
    STARTED,
    STATE,
    EmptyFolder,
    Folder,
    Session,
    Socket,
    Thing,
    Ward,
    fields_of,
    from_json,
    identity,
    in_json,
    is_served,
    lock,
    remove_all,
)
from generated_vmm.process.registry import enter, entry_of
from generated_vmm.process.settings import (
    HostPath,
    Settings,
    monitor_arguments,
    require_short,
    without_environment,
)

SOCKET, CONSOLE_INPUT, CONSOLE_OUTPUT, LOG, METRICS = NAMES = (
    "api.socket",
    "console.in",
    "console.out",
    "log",
    "metrics",
)
ROOT = "root"  # of a jail
PATHS = ("socket_path", "config_file", "metadata", "seccomp_filter", "log_path", "metrics_path")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
FOLDER = os.O_RDONLY | os.O_DIRECTORY
BOTH_ENDS = os.O_RDWR | os.O_NONBLOCK  # of a fifo: it always has a reader, its writer never waits
PEER = struct.Struct("3i")  # struct ucred (unix(7)): pid, uid, gid
ATTEMPTS = 100
DEAD = (b"Z", b"X")  # states of a process that has ended (proc(5))

Identity: TypeAlias = tuple[int, int]
"""The number of a process, and when it was started: no other process has both."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class State:
    """What is written down of a monitor, for whoever finds its folder.

    `owner` and `process` are the process that holds the folder, None after it has let go, and that
    of the monitor; `is_detached` says whether that may run without an owner.
    """

    boot_id: str
    owner: Identity | None
    how: dict[str, Any]
    things: list[Any]
    process: Identity | None = None
    is_detached: bool = False

    def child(self) -> Child | None:
        """The process if it runs."""
        with contextlib.suppress(ProcessLookupError):
            if self.process is not None and self.is_running:
                return Child(*self.process)
        return None

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._is_alive(self.process)

    @property
    def is_owned(self) -> bool:
        """Whether the process runs that holds the folder."""
        return self._is_alive(self.owner)

    def _is_alive(self, process: Identity | None) -> bool:
        return (
            process is not None and self.boot_id == boot_id() and process == identity_of(process[0])
        )

    def remove(self, descriptor: int, *, removes_folder: bool) -> None:
        """Removes what a dead owner left, with a process that ran on without being detached.

        What the last start of the host has ended is not looked for, as its names may be another's.
        """
        ward: Ward = []
        for thing in map(from_json, self.things):
            if isinstance(thing, Folder):
                ward.append((replace(thing, made=thing.made and removes_folder), descriptor))
            elif self._may_be_there(thing, descriptor):
                ward.append((thing, None))
        remove_all(ward)

    def _may_be_there(self, thing: Thing, descriptor: int) -> bool:
        if isinstance(thing, Session):
            with contextlib.suppress(FileNotFoundError):
                return self.is_running or identity(ROOT, descriptor) == thing.root
            return False
        return isinstance(thing, EmptyFolder | Socket) or self.boot_id == boot_id()


def identity_of(pid: int) -> Identity | None:
    """What no other process has; None for one that has ended, though it may be a zombie yet."""
    fields = fields_of(pid)
    return None if fields is None or fields[0] in DEAD else (pid, int(fields[STARTED]))


class Workspace(ABC):
    """Where a monitor runs, unjailed or in a jail; paths are the host's unless said otherwise."""

    settings: Settings
    id: str | None
    uid: int
    """The user that the monitor runs as."""
    _directory: Path | None
    _is_whole = False  # whether all that is in the folder goes with it

    def __init__(self) -> None:
        self.descriptor = -1
        self.ward: Ward = []
        self.session: Session | None = None
        self._state = State(boot_id(), our_identity(), {}, [])
        self.tell: Callable[[Ward], None] = lambda _: None
        self._lock = threading.RLock()

    @property
    def directory(self) -> Path:
        """The monitor's folder; a temporary one is known from the start on."""
        if self._directory is None:
            raise MonitorError("the monitor has no folder before it is started")
        return self._directory

    @property
    @abstractmethod
    def socket_path(self) -> str:
        """The API's socket."""

    @abstractmethod
    def argv(self) -> list[str]:
        """The command line."""

    @abstractmethod
    def how(self) -> dict[str, Any]:
        """What makes this workspace again, in a form for JSON."""

    @abstractmethod
    def prepare(self) -> None:
        """Makes what the monitor needs, in the folder that is held."""

    @abstractmethod
    def outlet(self, name: str, flags: int) -> int:
        """Opens the fifo for the log or the metrics."""

    @abstractmethod
    def open_socket(self, path: str | None = None) -> int:
        """An O_PATH descriptor of a socket, by its path as the monitor says it; the API's if None.

        OSError unless it is a socket of the monitor's user.
        """

    @abstractmethod
    def vsock_made_at(self, path: str) -> Thing | None:
        """What is to be removed if the monitor makes a vsock device's socket at its path."""

    def log_file(self) -> str | None:
        """The file in which the log can be read too, None for the outlet alone."""
        return None

    def monitor_of(self, started: Child) -> Child:
        """The monitor's process, given the one that was started for it."""
        return started

    # Owning

    def take(self, tell: Callable[[Ward], None]) -> None:
        """Makes the folder if need be, and holds it; `tell` entrusts what there is to the reaper.

        What dead owners left is removed. `MonitorStartError` when the folder is in use or is not
        this user's alone.
        """
        self.tell = tell
        path = str(self.directory)
        made = retried(lambda: self._hold(path))
        made |= self._remove_leftovers()
        entry = entry_of(os.fstat(self.descriptor))
        folder = Folder(path, list(NAMES), self._is_whole, made, entry)
        self.ward = [each for each in self.ward if each[0] != EmptyFolder(path)]
        self._state = replace(self._state, owner=our_identity(), how=self.how())
        self.own(folder, self.descriptor)
        enter(entry, path)

    def _hold(self, path: str) -> bool:
        """Holds the folder; whether it was made. FileNotFoundError when it was just removed."""
        made = self._made(path)
        self.descriptor = hold(path)
        return made

    def _made(self, path: str, mode: int = 0o700) -> bool:
        """Whether a folder was not there and was made; the reaper is told before."""
        if os.path.lexists(path):
            return False
        self._own_if_empty(path)
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            return False
        return True

    def _make_parents(self, path: str) -> None:
        """Makes the folders above a path that are missing; they go again once they are empty."""
        parents = [str(parent) for parent in Path(path).parents]
        for parent in reversed(parents):
            self._made(parent, 0o755)

    def _own_if_empty(self, path: str) -> None:
        thing = (EmptyFolder(path), None)
        if thing not in self.ward:
            self.ward.append(thing)
            self.tell(self.ward)

    def _remove_leftovers(self) -> bool:
        """Removes what a dead owner left, and says whether it had made the folder.

        `MonitorStartError` when its monitor is to run on.
        """
        state = read_state(self.descriptor)
        if state is None:
            return False
        if state.is_detached and state.is_running:
            raise MonitorStartError(f"in {self.directory} a detached monitor runs: attach to it")
        state.remove(self.descriptor, removes_folder=False)
        return any(isinstance(each, Folder) and each.made for each in map(from_json, state.things))

    def own(self, thing: Thing, descriptor: int | None = None) -> None:
        """Adds to the ward: the reaper is told, and it is written down. Before it is made."""
        self.ward.append((thing, descriptor))
        self._write_down()

    def replace_last(self, thing: Thing) -> None:
        """Takes more exact knowledge of the last thing of the ward."""
        self.ward[-1] = (thing, self.ward[-1][1])
        self._write_down()

    def own_process(self, child: Child) -> None:
        """Adds a process and its session to the ward."""
        self.session = Session(child.pid, child.start_time, self._root_identity())
        self.own(self.session)
        self.note_process(child)

    def _root_identity(self) -> list[int] | None:
        """The folder that the monitor's processes have as their root, if that is not the host's."""
        return None

    def note_process(self, child: Child, *, is_detached: bool = False) -> None:
        """Writes the monitor's process down."""
        process = (child.pid, child.start_time)
        self._state = replace(self._state, process=process, is_detached=is_detached)
        write_state(self.descriptor, self._state)

    def _write_down(self) -> None:
        self.tell(self.ward)
        things = [in_json(thing) for thing, _ in self.ward]
        self._state = replace(self._state, things=things)
        write_state(self.descriptor, self._state)

    def take_back(self, descriptor: int, state: State) -> None:
        """Goes on with the folder and the things of a detached monitor."""
        self.descriptor, self._state = descriptor, replace(state, owner=our_identity())
        with contextlib.suppress(OSError):  # the lock is what counts
            write_state(descriptor, self._state)
        for thing in map(from_json, state.things):
            self.ward.append((thing, descriptor if isinstance(thing, Folder) else None))
            if isinstance(thing, Session):
                self.session = thing

    def disown(self) -> None:
        """Writes down that the monitor has no owner."""
        self._state = replace(self._state, owner=None)
        with contextlib.suppress(OSError):  # the lock is what counts
            write_state(self.descriptor, self._state)

    def close(self) -> None:
        """Lets go of the folder, which others may hold then; safe to call twice."""
        with self._lock:
            if self.descriptor >= 0:
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)  # also that of the reaper's copy
            self._close()

    def abandon(self) -> None:
        """Closes a forked process's copies: the lock is the parent's, and who held ours is gone."""
        self._lock = threading.RLock()
        self._close()

    def _close(self) -> None:
        for descriptor in self._descriptors():
            os.close(descriptor)

    def _descriptors(self) -> list[int]:
        """The open descriptors, from now on somebody else's to close."""
        descriptor, self.descriptor = self.descriptor, -1
        return [descriptor] if descriptor >= 0 else []

    def __del__(self) -> None:
        self.close()

    # Using

    def open(self, name: str, flags: int) -> int:
        """Opens something in the folder. OSError when it is a link, or the folder is let go."""
        return self._open_in(self.descriptor, name, flags)

    def open_console(self, flags: int) -> int:
        """Opens the fifo that leads to the guest's console."""
        return self.open(CONSOLE_INPUT, flags)

    def _open_in(self, folder: int, name: str, flags: int) -> int:
        with self._lock:
            if self.descriptor < 0:
                raise FileNotFoundError(f"{self.directory} is not open")
            return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)

    def connect(self, connection: socket.socket) -> None:
        """Connects to the API. OSError unless a process of this monitor answers there."""
        found = self.open_socket()
        try:
            connection.connect(f"/proc/self/fd/{found}")
        finally:
            os.close(found)
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
        pid, uid, _ = PEER.unpack(peer)
        if uid != self.uid or self.session is None or not self.session.has(pid):
            raise PermissionError(f"process {pid} of user {uid} answers, and not the monitor")

    def require_socket(self, descriptor: int) -> int:
        """The descriptor, if it is one of a socket of the monitor's user."""
        found = os.fstat(descriptor)
        if stat.S_ISSOCK(found.st_mode) and found.st_uid == self.uid:
            return descriptor
        os.close(descriptor)
        raise PermissionError(f"there is no socket of user {self.uid}")


class Unjailed(Workspace):
    """A monitor in a folder of its own, which runs as this user and sees the host's files."""

    def __init__(self, binary: HostPath | Sequence[HostPath], settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.id = settings.id
        self.uid = os.geteuid()
        argv = [binary] if isinstance(binary, str | os.PathLike) else binary
        self._binary = [os.fspath(each) for each in argv]
        if not self._binary:
            raise ValueError("binary is an empty sequence; it names the monitor's program")
        if settings.detached and settings.directory is None:
            raise ValueError("a detached monitor needs a directory to be found by")
        directory = absolute(settings.directory)
        self._directory = None if directory is None else Path(directory)
        self._socket_path = absolute(settings.socket_path)
        if self._socket_path or self._directory:
            require_short(self.socket_path)

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return self._socket_path or str(self.directory / SOCKET)

    def take(self, tell: Callable[[Ward], None]) -> None:
        """Holds the folder; see `Workspace.take`."""
        if self._directory is None:
            self._directory = Path(tempfile.gettempdir(), f"vmm-{secrets.token_hex(6)}")
        require_short(self.socket_path)
        super().take(tell)

    def prepare(self) -> None:
        """Makes the fifos. `MonitorStartError` when something is in their place."""
        for name in NAMES[1:]:
            make_fifo(name, self.descriptor, self.directory)
        if self._socket_path is None and not is_served(self.socket_path):
            with contextlib.suppress(FileNotFoundError):  # of a monitor that nobody owned
                os.unlink(SOCKET, dir_fd=self.descriptor)
        if is_served(self.socket_path):
            raise MonitorStartError(f"{self.socket_path} is taken: somebody listens there")
        if os.path.lexists(self.socket_path):
            raise MonitorStartError(
                f"{self.socket_path} exists although nobody listens there; "
                "remove it if nobody needs it"
            )
        if self._socket_path is not None:
            self.own(Socket(self._socket_path))

    def argv(self) -> list[str]:
        """The command line."""
        program, *first = self._binary
        found = find_program(program, self.settings.env)
        named = ["--id", self.settings.id] if self.settings.id else []
        return [found, *first, *named, *monitor_arguments(self.settings, self._paths())]

    def _paths(self) -> dict[str, str | None]:
        given = self.settings
        return {
            "--api-sock": self.socket_path,
            "--log-path": absolute(given.log_path) or str(self.directory / LOG),
            "--metrics-path": absolute(given.metrics_path) or str(self.directory / METRICS),
            "--config-file": absolute(given.config_file),
            "--metadata": absolute(given.metadata),
            "--seccomp-filter": absolute(given.seccomp_filter),
        }

    def outlet(self, name: str, flags: int) -> int:
        """Opens the fifo for the log or the metrics."""
        return self.open(name, flags)

    def open_socket(self, path: str | None = None) -> int:
        """An O_PATH descriptor of a socket; see `Workspace.open_socket`."""
        flags = os.O_PATH | os.O_NOFOLLOW
        if path is not None:
            return self.require_socket(os.open(self._outside(path), flags))
        if self._socket_path is not None:
            return self.require_socket(os.open(self._socket_path, flags))
        return self.require_socket(self.open(SOCKET, flags))

    def vsock_made_at(self, path: str) -> Thing | None:
        """The socket, unless something is there already."""
        outside = self._outside(path)
        return None if os.path.lexists(outside) else Socket(outside)

    def log_file(self) -> str | None:
        """The file in which the log can be read too, None for the outlet alone."""
        return absolute(self.settings.log_path)

    def _outside(self, path: str) -> str:
        return os.path.join(os.path.abspath(self.settings.cwd or "."), path)

    def how(self) -> dict[str, Any]:
        """What makes this workspace again, from whatever folder."""
        given = without_environment(self.settings)
        given |= {name: absolute(getattr(self.settings, name)) for name in PATHS}
        given["directory"], given["cwd"] = str(self.directory), self._outside("")
        return {"binary": self._binary, "settings": given}

    @classmethod
    def from_how(cls, how: Mapping[str, Any]) -> Self:
        """The workspace that gave this as `how`."""
        return cls(how["binary"], Settings(**how["settings"]))


def retried(make: Callable[[], Result]) -> Result:
    """The result of a call that finds its folder gone when somebody else has just removed it."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):
            return make()
    return make()


@contextlib.contextmanager
def open_private(path: str) -> Iterator[int]:
    """The descriptor of a folder that only this user can change, closed after the block."""
    descriptor = os.open(path, FOLDER)
    try:
        require_private(path, os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def hold(path: str) -> int:
    """The descriptor of a folder, locked. FileNotFoundError when its owner has just removed it.

    `MonitorStartError` when somebody else has locked it, or could change what is in it.
    """
    with open_private(path) as descriptor:
        wait_for_lock(path, descriptor)
        if os.fstat(descriptor).st_nlink == 0:
            raise FileNotFoundError(path)
        return os.dup(descriptor)


def wait_for_lock(path: str, descriptor: int) -> None:
    """Locks a folder. `MonitorStartError` when a process that is alive owns the monitor in it.

    What a dead one left is locked by the reaper until it is removed.
    """
    deadline = time.monotonic() + LONGEST_END
    while not lock(descriptor):
        state = read_state(descriptor)
        if state is not None and state.owner is not None and state.is_owned:
            raise MonitorStartError(f"{path} is in use by process {state.owner[0]}")
        if time.monotonic() > deadline:
            raise MonitorStartError(f"{path} is in use")
        time.sleep(PAUSE)


def require_private(path: str, found: os.stat_result) -> None:
    """`MonitorStartError` unless only this user can change what is in a folder."""
    if found.st_uid != os.geteuid():
        raise MonitorStartError(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        raise MonitorStartError(f"{path} can be changed by others (mode {mode:o}): chmod go-w")


def find_detached(kind: type[Any], path: str) -> tuple[Workspace, Child]:
    """The workspace of this kind and the process of a detached monitor, whose folder is now held.

    `MonitorExited` when it has ended, `MonitorError` when there is none or it is another's.
    """
    try:
        descriptor = hold(path)
    except (FileNotFoundError, NotADirectoryError):
        raise MonitorError(f"{path} is not the folder of a detached monitor") from None
    except (MonitorStartError, OSError) as error:
        raise MonitorError(str(error)) from error
    try:
        state = read_state(descriptor)
        if state is None or not state.is_detached:
            raise MonitorError(f"{path} is not the folder of a detached monitor")
        try:
            workspace: Workspace = kind.from_how(state.how)
        except (LookupError, TypeError, ValueError) as error:
            raise MonitorError(f"{path} is no {kind.__name__} monitor's: {error!r}") from error
        child = state.child()
        if child is None:
            raise MonitorExited(f"the monitor of {path} has ended")
    except BaseException:
        os.close(descriptor)
        raise
    workspace.take_back(descriptor, state)
    return workspace, child


def make_fifo(name: str, folder: int, directory: Path) -> None:
    """Makes a fifo that only its owner may use, in place of an older one."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISFIFO(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
    try:
        os.mkfifo(name, 0o600, dir_fd=folder)
    except OSError as error:
        raise MonitorStartError(f"{directory / name} cannot be made: {error.strerror}") from error


def write_state(folder: int, state: State) -> None:
    """Writes a monitor down in its folder, whole or not at all."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(NEW_STATE, dir_fd=folder)
        with open(os.open(NEW_STATE, flags, 0o600, dir_fd=folder), "w") as file:
            json.dump(vars(state), file)
        os.rename(NEW_STATE, STATE, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(NEW_STATE, dir_fd=folder)
        raise


def read_state(folder: int) -> State | None:
    """What is written down in a folder. `MonitorError` for nonsense, or what others could write."""
    try:
        with open(os.open(STATE, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise PermissionError(f"somebody else than user {os.geteuid()} can write to it")
            written = json.load(file)
        for name in ("owner", "process"):
            if written[name] is not None:
                pid, start_time = written[name]
                written[name] = (int(pid), int(start_time))
        _ = [from_json(each) for each in written["things"]], dict(written["how"])
        return State(**written)
    except FileNotFoundError:
        return None
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise MonitorError(f"the {STATE} of a monitor cannot be read: {error}") from error


def our_identity() -> Identity:
    """This process."""
    return cast(Identity, identity_of(os.getpid()))


def boot_id() -> str:
    """What tells this start of the host from others."""
    return BOOT_ID.read_text().strip()


def absolute(path: HostPath | None) -> str | None:
    """The same path from whatever folder."""
    return None if path is None else os.path.abspath(path)
