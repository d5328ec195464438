"""The folder in which a monitor runs, and the list of the things that it owns: the ward.

Files in the folder are reached through its descriptor, without following links.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import socket
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from generated_vmm.process.child import Child, Descriptor, find_program
from generated_vmm.process.errors import MonitorError, MonitorStartError
from generated_vmm.process.folders import (
    NEW_FOLDER,
    enter,
    entry_of,
    hold,
    is_new,
    make_fifo,
    require_trusted_path,
    retried,
)
from generated_vmm.process.removal import identity, is_served
from generated_vmm.process.settings import (
    HostPath,
    Settings,
    absolute,
    monitor_arguments,
    require_short,
    without_environment,
)
from generated_vmm.process.state import State, boot_id, our_identity, read_state, write_state
from generated_vmm.process.things import (
    ControlGroup,
    EmptyFolder,
    Folder,
    Session,
    Socket,
    Thing,
    Ward,
    end_processes,
    from_json,
    in_json,
)

SOCKET, CONSOLE_INPUT, CONSOLE_OUTPUT, LOG, METRICS = NAMES = (
    *("api.socket", "console.in", "console.out", "log", "metrics"),
)
BOTH_ENDS = os.O_RDWR | os.O_NONBLOCK  # of a fifo: it always has a reader, its writer never waits
# The mark of a folder above jails: sticky, which has no effect where others cannot write.
MADE, MARKED = stat.S_ISVTX | 0o711, stat.S_ISVTX | 0o066
PATHS = ("config_file", "metadata", "seccomp_filter", "log_path", "metrics_path")
PEER = struct.Struct("3i")  # struct ucred (unix(7)): pid, uid, gid


class Workspace:
    """A monitor in a folder of its own, which runs as this user and sees the host's files.

    Paths are the host's unless said otherwise.
    """

    _is_whole = False  # whether all that is in the folder goes with it
    _mode = 0o700  # of the folder
    ignores_sigterm = False
    """Whether it is process 1 of a PID namespace (pid_namespaces(7))."""

    def __init__(self, binary: HostPath | Sequence[HostPath], settings: Settings) -> None:
        self.settings = settings
        self.id = settings.id
        self.uid = os.geteuid()
        """The user that the monitor runs as."""
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
        self._folder: Descriptor | None = None
        self.ward: Ward = []
        self.session: Session | None = None
        self._state = State(boot_id(), our_identity(), {}, [])
        self.tell: Callable[[Ward], None] = lambda _: None

    @property
    def directory(self) -> Path:
        """The monitor's folder; a temporary one is known after the start."""
        if self._directory is None:
            raise MonitorError("the monitor has no folder before it is started")
        return self._directory

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return self._socket_path or str(self.directory / SOCKET)

    def log_file(self) -> str | None:
        """The file that has the log too; None if only the outlet has it."""
        return absolute(self.settings.log_path)

    def monitor_of(self, started: Child) -> Child:
        """The monitor's process, which may be a child of the started one."""
        return started

    # Owning

    def take(self, tell: Callable[[Ward], None], require_wanted: Callable[[], None]) -> None:
        """Creates the folder if needed, and holds it; `tell` entrusts its things to the reaper.

        What dead owners left is removed. `require_wanted` raises to end the wait for the folder.
        Raises `MonitorStartError` if the folder is in use, or other users can change it.
        """
        self.tell = tell
        if self._directory is None:
            self._directory = Path(tempfile.gettempdir(), f"vmm-{secrets.token_hex(6)}")
        require_short(self.socket_path)
        path = str(self.directory)
        require_trusted_path(path)
        made = retried(lambda: self._hold(path, require_wanted))
        made |= self._remove_leftovers()
        entry = entry_of(os.fstat(self.descriptor))
        folder = Folder(path, list(NAMES), self._is_whole, made, entry)
        self.ward = [each for each in self.ward if each[0] != EmptyFolder(path)]
        self.ward.append((folder, self.descriptor))
        self.record(owner=our_identity(), how=self.how())
        if is_new(self.descriptor):
            os.fchmod(self.descriptor, self._mode)
        enter(entry, path)

    def _hold(self, path: str, require_wanted: Callable[[], None]) -> bool:
        """Holds the folder; returns whether it was created. FileNotFoundError if just removed.

        A new folder has a mark until its state is written, so that its first holder knows it.
        """
        self._make(path, NEW_FOLDER)
        self._folder = Descriptor(hold(path, require_wanted))
        return is_new(self.descriptor)

    def _make(self, path: str, mode: int) -> None:
        """Creates a folder unless it exists; the reaper is informed before."""
        if not os.path.lexists(path):
            self._own_if_empty(path)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, mode)

    def _make_parents(self, path: str, require: Callable[[str], None] = lambda _: None) -> None:
        """Creates missing folders above a path; the last monitor below removes them.

        `require` is asked before each of them, because others may change what is above it.
        """
        for parent in map(str, reversed(Path(path).parents)):
            require(parent)
            self._make(parent, MADE)
            found = os.lstat(parent)
            is_marked = found.st_mode & MARKED == stat.S_ISVTX
            if is_marked and found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode):
                self._own_if_empty(parent)

    def _own_if_empty(self, path: str) -> None:
        thing = (EmptyFolder(path), None)
        if thing not in self.ward:
            self.ward.append(thing)
            self.tell(self.ward)

    def _remove_leftovers(self) -> bool:
        """Removes what a dead owner left, and returns whether it had created the folder.

        Raises `MonitorStartError` if its monitor is detached and runs.
        """
        state = read_state(self.descriptor)
        if state is None:
            return False
        if state.is_detached and state.living(state.process):
            raise MonitorStartError(f"a detached monitor runs in {self.directory}: attach to it")
        state.remove(self.descriptor, removes_folder=False)
        return any(isinstance(each, Folder) and each.made for each in map(from_json, state.things))

    def own(self, thing: Thing) -> None:
        """Adds a thing to the ward, before it is created."""
        self.ward.append((thing, None))
        self.record()

    def record(self, **changes: Any) -> None:
        """Informs the reaper of the ward, and writes the state with the ward and these changes."""
        self.tell(self.ward)
        things = [in_json(thing) for thing, _ in self.ward]
        self._state = replace(self._state, things=things, **changes)
        write_state(self.descriptor, self._state)

    def make_group(self, folder: str) -> ControlGroup | OSError:
        """Creates a control group that ends with the monitor, or returns why there can be none."""
        if os.path.lexists(folder):
            return FileExistsError(folder)
        self.own(ControlGroup(folder))
        try:
            os.mkdir(folder, 0o755)
        except OSError as error:  # for instance, another process has just created it
            self.ward.pop()
            self.record()
            return error
        made = ControlGroup(folder, identity(folder))
        self.ward[-1] = (made, None)
        self.record()
        return made

    def own_process(self, child: Child) -> None:
        """Adds a process and its session to the ward, in place of those that it was before."""
        session = Session(child.pid, child.start_time, self._root_identity())
        others = [owned for owned in self.ward if owned[0] != self.session]
        self.session, self.ward = session, [*others, (session, None)]
        self.record(process=(child.pid, child.start_time))

    def end_processes(self) -> None:
        """Ends the monitor's processes once the first one has ended, and forgets their session.

        Raises TimeoutError if a process does not end.
        """
        before = len(self.ward)
        end_processes(self.ward)
        if len(self.ward) < before:
            with contextlib.suppress(MonitorError, OSError):  # without its leader it is not ended
                self.record()

    def _root_identity(self) -> list[int] | None:
        """The root folder of the monitor's processes, if it is not the host's."""
        return None

    def take_back(self, descriptor: int, state: State) -> None:
        """Takes over the folder and the things of a detached monitor."""
        self._folder, self._state = Descriptor(descriptor), state
        for thing in map(from_json, state.things):
            self.ward.append((thing, descriptor if isinstance(thing, Folder) else None))
            if isinstance(thing, Session):
                self.session = thing
        with contextlib.suppress(OSError):  # the lock is what counts
            self.record(owner=our_identity())

    def disown(self) -> None:
        """Records that the monitor has no owner."""
        with contextlib.suppress(OSError):  # the lock is what counts
            self.record(owner=None)

    @property
    def descriptor(self) -> int:
        """The folder's descriptor. Raises OSError if it is not held."""
        return self._held(self._folder).number

    def _held(self, folder: Descriptor | None) -> Descriptor:
        if folder is None:
            raise FileNotFoundError(f"{self.directory} is not open")
        return folder

    def close(self) -> None:
        """Releases the folder, which others may hold then; safe to call twice."""
        if self._folder is not None:
            fcntl.flock(self._folder.number, fcntl.LOCK_UN)  # the lock of the reaper's copy too
        self.abandon()

    def abandon(self) -> None:
        """Only closes the descriptors, in a forked process: the lock belongs to its parent."""
        self._folder = None

    # Using

    def open(self, name: str, flags: int) -> int:
        """Opens a file in the folder. Raises OSError if it is a link or the folder is released."""
        return self._open_in(self._folder, name, flags)

    def _open_in(self, folder: Descriptor | None, name: str, flags: int) -> int:
        try:
            return os.open(name, flags | os.O_NOFOLLOW, dir_fd=self._held(folder).number)
        finally:
            del folder  # a stored error would keep it open

    def opened_for_process(self) -> Iterator[int]:
        """Opens standard input, output and error of the monitor's process, one by one."""
        yield self.open(CONSOLE_INPUT, os.O_RDWR)
        yield self.open(CONSOLE_OUTPUT, BOTH_ENDS)
        yield self.outlet(LOG, BOTH_ENDS)

    def open_console(self, flags: int) -> int:
        """Opens the fifo that leads to the guest's console."""
        return self.open(CONSOLE_INPUT, flags)

    def connect(self, connection: socket.socket) -> None:
        """Connects to the API. Raises OSError unless a process of this monitor listens there."""
        found = self.open_socket()
        try:
            connection.connect(f"/proc/self/fd/{found}")
        finally:
            os.close(found)
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
        pid, uid, _ = PEER.unpack(peer)
        if uid != self.uid or self.session is None or not self.session.has(pid):
            raise PermissionError(f"process {pid} of user {uid} listens there, and not the monitor")

    def require_socket(self, descriptor: int) -> int:
        """The descriptor, if it is that of a socket of the monitor's user."""
        found = os.fstat(descriptor)
        if stat.S_ISSOCK(found.st_mode) and found.st_uid == self.uid:
            return descriptor
        os.close(descriptor)
        raise PermissionError(f"there is no socket of user {self.uid}")

    # Starting

    def prepare(self) -> None:
        """Creates the fifos. Raises `MonitorStartError` if something is in their place."""
        for name in NAMES[1:]:
            make_fifo(name, self.descriptor, self.directory)
        if is_served(self.socket_path):
            raise MonitorStartError(f"{self.socket_path} is in use: another process listens there")
        if self._socket_path is None:
            with contextlib.suppress(FileNotFoundError):  # of a monitor without an owner
                os.unlink(SOCKET, dir_fd=self.descriptor)
        elif os.path.lexists(self._socket_path):
            what = "exists although nothing listens there; remove it if it is not needed"
            raise MonitorStartError(f"{self._socket_path} {what}")
        else:
            self.own(Socket(self._socket_path))

    def argv(self) -> list[str]:
        """The command line."""
        program, *first = self._binary
        found = find_program(program, self.settings.env)
        named = ["--id", self.settings.id] if self.settings.id else []
        return [found, *first, *named, *monitor_arguments(self.settings, self._paths())]

    def _paths(self) -> dict[str, str | None]:
        given = {name: absolute(getattr(self.settings, name)) for name in PATHS}
        return {
            **given,
            "api_sock": self.socket_path,
            "log_path": given["log_path"] or str(self.directory / LOG),
            "metrics_path": given["metrics_path"] or str(self.directory / METRICS),
        }

    def outlet(self, name: str, flags: int) -> int:
        """Opens the fifo for the log or the metrics."""
        return self.open(name, flags)

    def open_socket(self, path: str | None = None) -> int:
        """An O_PATH descriptor of a socket, by its path for the monitor; the API's if None.

        Raises OSError unless it is a socket of the monitor's user.
        """
        flags = os.O_PATH | os.O_NOFOLLOW
        if path is not None:
            return self.require_socket(os.open(self._outside(path), flags))
        if self._socket_path is not None:
            return self.require_socket(os.open(self._socket_path, flags))
        return self.require_socket(self.open(SOCKET, flags))

    def vsock_made_at(self, path: str) -> Thing | None:
        """The thing to remove if the monitor makes a vsock's socket here; None if it is taken."""
        outside = self._outside(path)
        return None if os.path.lexists(outside) else Socket(outside)

    def _outside(self, path: str) -> str:
        return os.path.join(os.path.abspath(self.settings.cwd or "."), path)

    def how(self) -> dict[str, Any]:
        """The data for `from_how`, with absolute paths, in a form for JSON."""
        given = without_environment(self.settings)
        given |= {name: absolute(getattr(self.settings, name)) for name in PATHS}
        given |= {"socket_path": self._socket_path, "directory": str(self.directory)}
        given["cwd"] = self._outside("")
        return {"binary": self._binary, "settings": given}

    @classmethod
    def from_how(cls, how: Mapping[str, Any]) -> Self:
        """The workspace whose `how` this is."""
        return cls(how["binary"], Settings(**how["settings"]))
