"""Finding a detached monitor by its folder."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

from generated_vmm.process.errors import MonitorError, MonitorExited
from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.folders import open_private
from generated_vmm.process.keeper.kernel import (
    LONGEST_END,
    Refused,
    exit_in_words,
    holders,
    in_words,
    lock,
)
from generated_vmm.process.keeper.record import read_record
from generated_vmm.process.place import Place
from generated_vmm.process.program import Descriptor


class Found:
    """A detached monitor whose keeper has this process as its owner now."""

    def __init__(self, path: str, connection: socket.socket, how: Any, given: list[int]) -> None:
        self.path, self.connection, self.how, self.given = path, connection, how, given

    def place_of(self, kind: type[Place]) -> Place:
        """Where it is. Raises `MonitorError` if it is of another kind."""
        try:
            return kind.from_how(self.how)
        except (LookupError, TypeError, ValueError) as error:
            what = f"{self.path} has no monitor of this kind: {error!r}"
            raise MonitorError(what) from error

    def close(self) -> None:
        """Gives it up."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for it
        self.connection.close()
        while self.given:
            os.close(self.given.pop())


def find_detached(directory: str | os.PathLike[str]) -> Found:
    """A detached monitor, which this process owns from now on.

    Raises `MonitorExited` if the monitor has ended, `MonitorError` if there is none or another
    process owns it.
    """
    path = os.path.abspath(directory)
    try:
        folder = open_private(path)
    except (FileNotFoundError, NotADirectoryError):
        raise MonitorError(f"{path} is not the folder of a detached monitor") from None
    except (Refused, OSError) as error:
        raise MonitorError(str(error)) from error
    try:
        connection = messages.connect(folder)
        if connection is None:
            raise _why_there_is_none(folder, path)
        try:
            told, given = _asked_to_attach(connection)
            if told["event"] != "taken":
                raise MonitorError(f"{path} is in use by process {told['owner']}")
            return Found(path, connection, told["how"], given)
        except BaseException:
            connection.close()
            raise
    except (OSError, Refused) as error:
        if isinstance(error, MonitorError):
            raise
        raise MonitorError(f"the monitor of {path} cannot be attached to: {error}") from error
    finally:
        os.close(folder)


def _asked_to_attach(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    caller = Descriptor(os.pidfd_open(os.getpid()))
    messages.send(connection, {"word": "attach"}, [caller.number])
    connection.settimeout(LONGEST_END)
    received = messages.receive(connection)
    if received is None:
        raise ConnectionAbortedError("its keeper has just ended")
    return received


def _why_there_is_none(folder: int, path: str) -> MonitorError:
    """Why a folder has no keeper."""
    record = read_record(folder, path)
    if record is None:
        return MonitorError(f"{path} is not the folder of a detached monitor")
    if not lock(folder):
        return MonitorError(f"{path} is in use by {in_words(holders(folder))}")
    if record.ended is None:
        return MonitorExited(f"the monitor of {path} was lost: its keeper was killed")
    how = exit_in_words(record.ended)
    return MonitorExited(f"the monitor of {path} has ended {how}", returncode=record.ended)
