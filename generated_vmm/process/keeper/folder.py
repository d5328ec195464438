"""The folder of a monitor: taken, filled with what the program needs, and known by its record."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable

from generated_vmm.process.keeper import kernel, messages, record
from generated_vmm.process.keeper.kernel import Descriptor, Refused
from generated_vmm.process.keeper.record import INPUT, LOG, METRICS, OUTPUT

ROOT = "root"  # of a jail
MODE, MODE_OF_JAIL = 0o700, 0o711  # others may pass through, not read: who can read can lock it
READABLE = stat.S_IRGRP | stat.S_IROTH


class Folder:
    """The folder of one monitor. Each step raises `Refused` or OSError."""

    taken: Descriptor
    """The folder, which is locked."""

    def __init__(self, order: record.Order) -> None:
        self._order, self._record, self._is_taken = order, order.record, False
        self.root: Descriptor | None = None
        self.listener: socket.socket | None = None

    @property
    def inside(self) -> Descriptor:
        """The folder whose files are the monitor's."""
        return self.root or self.taken

    def take(self, pause: Callable[[float], object]) -> None:
        """Makes the folder, or takes over one without a keeper, and locks it.

        `pause` waits some seconds for another keeper to end, and raises if nobody waits any more.
        """
        path = self._record.path
        if self._record.jailed:
            parent = os.path.dirname(path)
            with kernel.About("chroot_base_dir", os.path.dirname(parent)):
                record.make_parents(path)
            for folder in (os.path.dirname(parent), parent):
                record.require_private(folder, os.stat(folder))
        while not self._is_taken:
            record.require_trusted_path(path)
            with kernel.About("directory", path):
                is_new = False
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, record.UNRECORDED)
                    is_new = True
                try:
                    self._take_over(path, pause)
                except OSError:
                    if is_new and not self._is_taken:
                        os.rmdir(path)
                    raise
        self._listen()
        if self._record.jailed:
            os.mkdir(ROOT, 0o755, dir_fd=self.taken.number)
            self.root = Descriptor(os.open, ROOT, kernel.FOLDER, dir_fd=self.taken.number)

    def _take_over(self, path: str, pause: Callable[[float], object]) -> None:
        """Takes a folder without a keeper, unless it has just gone, and gives it its record.

        Until then it has a mode of its own, by which it is known if the keeper is killed.
        """
        try:
            folder = record.open_private(path)
        except FileNotFoundError:
            if os.path.islink(path):
                raise
            return
        mode = stat.S_IMODE(os.fstat(folder.number).st_mode)
        if mode & READABLE:
            raise Refused(f"{path} can be locked by others (mode {mode:o}): chmod go-r")
        if (seen := messages.ask(folder.number, path, pause=pause)) is not None:
            if seen[0] == "detached":
                raise Refused(f"a detached monitor runs in {path}: attach to it")
            raise Refused(f"{path} is in use by process {seen[1]}")
        with contextlib.suppress(FileNotFoundError):
            now = os.stat(path)
            if [now.st_dev, now.st_ino] == kernel.identity(folder.number):
                is_new = record.is_unrecorded(os.fstat(folder.number)) and not os.listdir(path)
                self._record.made = is_new or self._clear(folder.number, path)
                self.taken, self._is_taken = folder, True
                record.write_record(folder.number, self._record)
                if self._record.made:
                    os.fchmod(folder.number, MODE_OF_JAIL if self._record.jailed else MODE)

    def _clear(self, folder: int, path: str) -> bool:
        """Removes what a monitor has left in a folder; whether a keeper has made the folder."""
        before = record.remove_leftover(folder, path, keeps_folder=True)
        found = set(os.listdir(folder)) - {record.RECORD}
        if others := sorted(found if self._record.jailed else found.intersection(record.NAMES)):
            whose = "another program uses it, or something is mounted in it"
            raise Refused(f"{path} has {', '.join(others)}, which no monitor left: {whose}")
        return before is not None and before.made

    def _listen(self) -> None:
        """Listens on a socket in the folder, for later owners and for questions."""
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = os.umask(0o177)
        try:
            self.listener.bind(f"/proc/self/fd/{self.taken.number}/{messages.KEEPER}")
        finally:
            os.umask(before)
        self.listener.listen()

    def is_gone(self) -> bool:
        """Whether somebody has deleted the folder: nobody can find the monitor any more."""
        return os.fstat(self.taken.number).st_nlink == 0

    def undo(self, *, keeps_folder: bool) -> list[str]:
        """Removes everything and gives the folder up; what could not be removed, and why."""
        if self.listener is not None:
            self.listener.close()
        if not self._is_taken:
            return []
        left = record.remove(self._record, self.taken.number, keeps_folder=keeps_folder)
        self.taken.close()
        return left

    # What the program needs

    def make_fifos(self) -> None:
        """Makes the fifos, and locks that of the program's standard input."""
        for name in (INPUT, OUTPUT, LOG, METRICS):
            with kernel.About("the fifo", f"{self._record.path}/{name}", "cannot be created"):
                os.mkfifo(name, 0o600, dir_fd=self._place_of(name))
        self.input = self.open(INPUT, os.O_RDWR)
        kernel.lock(self.input.number)
        if self.root is not None:
            for name in (LOG, METRICS):
                fifo = self.open(name, os.O_RDONLY | os.O_NONBLOCK)
                os.fchown(fifo.number, *self._order.user)

    def open(self, name: str, flags: int) -> Descriptor:
        """An end of a fifo. The user of a jail may have removed or replaced it: OSError."""
        return record.open_fifo(name, self._place_of(name), flags)

    def _place_of(self, name: str) -> int:
        return (self.inside if name in (LOG, METRICS) else self.taken).number

    def open_api(self) -> Descriptor:
        """The API's socket. Raises OSError until the monitor listens, `Refused` if another does."""
        return messages.open_listening(self.inside, record.SOCKET, self._order.user[0])

    def note_vsock(self, path: str) -> None:
        """Notes the socket of a vsock device in place of the one before. Raises ValueError too.

        The monitor says that it has bound it: whoever else listens there is left alone.
        """
        folder, name = os.path.split(os.path.join(self._order.cwd, path))
        held = Descriptor(os.open, folder, os.O_PATH | os.O_DIRECTORY)
        found = messages.open_listening(held, name, self._order.user[0])
        folder_id, id = kernel.identity(held.number), kernel.identity(found.number)
        self._record.sockets = [record.Socket(folder, folder_id, name, id)]
        record.write_record(self.taken.number, self._record)
        self._vsock_folder = held  # so that no other folder gets its identity
