"""The folder of a monitor, which its caller has taken: where its sockets are, and its record."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from generated_vmm.process.keeper import kernel
from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.keeper.record import INPUT, LOG, OUTPUT, Order, Socket, write_record
from generated_vmm.process.keeper.removal import remove
from generated_vmm.process.keeper.sockets import open_listening


class Folder:
    """The folder of one monitor. `given` is what the caller has opened: see `taking.Taken`."""

    def __init__(self, order: Order, given: Mapping[str, Descriptor]) -> None:
        self._order, self._record = order, order.record
        self._folder, self.api_folder = given["folder"], given["api"]
        self.fifos = [given[INPUT], given[OUTPUT], given[LOG]]
        self.listener = socket.socket(fileno=os.dup(given["listener"].number))

    def is_gone(self) -> bool:
        """Whether somebody has deleted the folder: nobody can find the monitor any more."""
        return os.fstat(self._folder.number).st_nlink == 0

    def undo(self, *, keeps_folder: bool) -> list[str]:
        """Removes everything and gives the folder up; what could not be removed, and why."""
        self.listener.close()
        left = remove(self._record, self._folder.number, keeps_folder=keeps_folder)
        self._folder.close()
        return left

    def open_api(self) -> Descriptor:
        """The API's socket. Raises OSError until the monitor listens, `Refused` if another does."""
        found = open_listening(self.api_folder, self._order.socket[1], self._order.user[0])
        if self._record.sockets:
            self._record.sockets[0].id = kernel.identity(found.number)
            self._save()
        return found

    def note_vsock(self, path: str) -> None:
        """Notes the socket of a vsock device in place of the one before. Raises ValueError too.

        The monitor says that it has bound it: whoever else listens there is left alone.
        """
        folder, name = os.path.split(os.path.join(self._order.cwd, path))
        held = Descriptor(os.open, folder, os.O_PATH | os.O_DIRECTORY)
        found = open_listening(held, name, self._order.user[0])
        del self._record.sockets[bool(self._order.socket[0]) :]
        identities = kernel.identity(held.number), kernel.identity(found.number)
        self._record.sockets.append(Socket(folder, identities[0], name, identities[1]))
        self._save()
        self._vsock_folder = held  # so that no other folder gets its identity

    def _save(self) -> None:
        with kernel.About("directory", self._record.path):
            write_record(self._folder.number, self._record)
