"""What a keeper makes before the program starts: the folder, the fifos, the control groups."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from abc import abstractmethod

from generated_vmm.process.keeper.asking import ask
from generated_vmm.process.keeper.conversation import Conversation, Goal
from generated_vmm.process.keeper.folders import (
    enter,
    entry_of,
    make_parents,
    open_private,
    require_private,
    require_trusted_path,
    require_unreadable,
)
from generated_vmm.process.keeper.kernel import FOLDER, Refused, about, identity, lock
from generated_vmm.process.keeper.leftovers import remove_leftover
from generated_vmm.process.keeper.monitor import Api
from generated_vmm.process.keeper.record import (
    INPUT,
    KEEPER,
    LOG,
    METRICS,
    OUTPUT,
    RECORD,
    UNRECORDED,
    Group,
    Record,
    Socket,
    write_record,
)
from generated_vmm.process.keeper.removal import is_served

ROOT = "root"  # of a jail
READING = os.O_RDONLY | os.O_NONBLOCK
ASKING_SECONDS = 1.0
ATTEMPTS = 100


class Making(Conversation):
    """A keeper up to the start of its program. Each step raises `Refused` or OSError."""

    _api: Api

    def __init__(self, owner: socket.socket, caller: int, record: Record, mode: int) -> None:
        super().__init__(owner, caller, record)
        self._mode = mode
        self._folder = self._root = self._input = -1

    @abstractmethod
    def _wait(self, seconds: float, connection: socket.socket) -> None:
        """Waits for a response of the monitor."""

    def _require_wanted(self) -> None:
        if self.goal >= Goal.STOP:
            raise Refused("the monitor was stopped before its socket responded")

    def _take(self) -> None:
        """Makes the folder, or takes over one without a keeper, and locks it."""
        path = self.record.path
        while self._folder < 0:
            self._require_wanted()
            if self.record.jailed:
                base = self.record.how["settings"]["chroot_base_dir"]
                with about("chroot_base_dir", base):
                    make_parents(path, private=True)
                for folder in (base, os.path.dirname(path)):
                    require_private(folder, os.stat(folder))
            require_trusted_path(path)
            with about("directory", path):
                is_new = False
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, UNRECORDED)
                    is_new = True
                try:
                    self._take_over(path, is_new=is_new)
                except OSError:
                    if is_new and self._folder < 0:
                        os.rmdir(path)
                    raise
        self._listen()
        if self.record.jailed:
            os.mkdir(ROOT, 0o755, dir_fd=self._folder)
            self._root = os.open(ROOT, FOLDER, dir_fd=self._folder)

    def _take_over(self, path: str, *, is_new: bool) -> None:
        """Takes a folder without a keeper, unless it has just been removed."""
        try:
            folder = open_private(path)
        except FileNotFoundError:
            if os.path.islink(path):
                raise
            return
        try:
            require_unreadable(path, os.fstat(folder))
            seen = ask(folder, path, pause=self._pause)
            if seen is not None and seen.told["status"] == "detached":
                raise Refused(f"a detached monitor runs in {path}: attach to it")
            if seen is not None:
                raise Refused(f"{path} is in use by process {seen.told['owner']}")
            with contextlib.suppress(FileNotFoundError):
                if identity(os.path.realpath(path)) == identity(folder):
                    if not is_new or os.listdir(folder):
                        is_new = self._clear(folder, path)
                    self._folder, folder = folder, -1
                    self._enter(made=is_new)
        finally:
            if folder >= 0:
                os.close(folder)

    def _pause(self, seconds: float) -> None:
        self._look(seconds)
        self._require_wanted()

    def _clear(self, folder: int, path: str) -> bool:
        """Removes what a monitor has left in a folder; whether a keeper has made the folder."""
        before = remove_leftover(folder, path, keeps_folder=True)
        if self.record.jailed and set(os.listdir(folder)) - {RECORD}:
            raise Refused(f"{path} exists: it is another jail, or something is mounted in it")
        return before is not None and before.made

    def _enter(self, *, made: bool) -> None:
        """Gives the folder, which is to be undone from now on, its record."""
        self.record.made = made
        self.record.entry = entry_of(os.fstat(self._folder))
        enter(self.record.entry, self.record.path)
        write_record(self._folder, self.record)
        if made:
            os.fchmod(self._folder, self._mode)

    def _listen(self) -> None:
        """Later owners, and those who ask, come to a socket in the folder."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(KEEPER, dir_fd=self._folder)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = os.umask(0o177)
        try:
            self._listener.bind(f"/proc/self/fd/{self._folder}/{KEEPER}")
        finally:
            os.umask(before)
        self._listener.listen()

    def _stay_reachable(self) -> None:
        """Makes socket and record anew if they were removed; without its folder a monitor ends.

        Nobody could find it any more.
        """
        try:
            for name in (KEEPER, RECORD):
                os.stat(name, dir_fd=self._folder)
        except FileNotFoundError:
            try:
                write_record(self._folder, self.record)
                self._listen()
            except FileNotFoundError:
                self.goal = Goal.KILL

    def _make_fifos(self) -> None:
        for name in (INPUT, OUTPUT):
            self._make_fifo(name, self._folder)
        for name in (LOG, METRICS):
            self._make_fifo(name, self._place_of(name))
        self._input = self._open(INPUT, os.O_RDWR)
        lock(self._input)

    def _place_of(self, name: str) -> int:
        return self._root if self.record.jailed and name in (LOG, METRICS) else self._folder

    def _open(self, name: str, flags: int) -> int:
        found = os.open(name, flags | os.O_NOFOLLOW, dir_fd=self._place_of(name))
        if not stat.S_ISFIFO(os.fstat(found).st_mode):
            os.close(found)
            raise FileNotFoundError(f"{name} is no fifo")
        return found

    def _make_fifo(self, name: str, folder: int) -> None:
        """Makes a fifo that only its owner may use, in place of an older one."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISFIFO(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
        with about("the fifo", os.path.join(self.record.path, name), "cannot be created"):
            os.mkfifo(name, 0o600, dir_fd=folder)
        if folder == self._root and self.order.owner is not None:  # the jailed user's
            fifo = self._open(name, READING)
            os.fchown(fifo, *self.order.owner)
            os.close(fifo)

    def _make_groups(self) -> None:
        """Makes the control groups that the jailer would make, so that they end with the monitor.

        They are in the record before they are made.
        """
        for path in self.order.groups:
            group = Group(path)
            self.record.groups.append(group)
            self._save()
            for attempt in range(ATTEMPTS):
                with about("cgroups", path):
                    make_parents(path, private=False)
                    try:
                        os.mkdir(path, 0o755)
                        group.id = identity(path)
                        break
                    except FileExistsError:
                        self.record.groups.remove(group)
                        what = "exists: another jail may use it, else remove it"
                        raise Refused(f"the control group {path} {what}") from None
                    except FileNotFoundError:  # another jail has just removed the parent
                        if attempt == ATTEMPTS - 1:
                            raise

    def _prepare_socket(self) -> None:
        """Requires that the API's place is free."""
        folder, name = self.order.socket
        if self.record.jailed:
            self._api = self._api_in(self._root, name)
        elif not folder:
            with contextlib.suppress(FileNotFoundError):  # of a monitor without a keeper
                os.unlink(name, dir_fd=self._folder)
            self._api = self._api_in(self._folder, name)
        else:
            self._api = self._api_in(self._hold_free(folder, name), name)

    def _api_in(self, folder: int, path: str) -> Api:
        return Api(folder, path, self.record.user, self._wait)

    def _hold_free(self, folder: str, name: str) -> int:
        """The folder of a socket outside of the monitor's, which is in the record from now on."""
        path = f"{folder}/{name}"
        with about("socket_path", path):
            held = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        if is_served(f"/proc/self/fd/{held}/{name}"):
            raise Refused(f"{path} is in use: another process listens there")
        if os.path.lexists(f"/proc/self/fd/{held}/{name}"):
            what = "exists although nothing listens there; remove it if it is not needed"
            raise Refused(f"{path} {what}")
        self.record.sockets.append(Socket(folder, identity(held), name, held=held))
        self._save()
        return held

    def _save(self) -> None:
        with about("directory", self.record.path):
            write_record(self._folder, self.record)
