"""Taking over a detached monitor, by its folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from generated_vmm.process.errors import MonitorError, MonitorExited
from generated_vmm.process.keeper.asking import Answer, ask
from generated_vmm.process.keeper.folders import open_private
from generated_vmm.process.keeper.kernel import Refused, exit_in_words
from generated_vmm.process.keeper.record import Record, read_record
from generated_vmm.process.place import Place
from generated_vmm.process.program import Descriptor
from generated_vmm.process.settings import HostPath


def place_in(directory: HostPath, kind: type[Place]) -> Place:
    """Where the monitor of a folder is. Raises `MonitorError` if it is of another kind."""
    path = os.path.abspath(directory)
    with _opened(path) as folder:
        how = _record_in(folder, path).how
    try:
        return kind.from_how(how)
    except (LookupError, TypeError, ValueError) as error:
        raise MonitorError(f"{path} has no monitor of this kind: {error!r}") from error


def attach(place: Place) -> Answer:
    """What its keeper tells its new owner, which is this process.

    Raises `MonitorExited` if the monitor has ended, `MonitorError` if another process owns it.
    """
    path, caller = str(place.directory), Descriptor(os.pidfd_open(os.getpid()))
    with _opened(path) as folder:
        answer = ask(folder, path, "attach", [caller.number])
        if answer is None:
            raise _ended(_record_in(folder, path))
    if answer.told["event"] != "taken":
        answer.connection.close()
        raise MonitorError(f"{path} is in use by process {answer.told['owner']}")
    answer.connection.settimeout(None)
    return answer


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    try:
        folder = open_private(path)
    except (FileNotFoundError, NotADirectoryError):
        raise MonitorError(f"{path} is not the folder of a detached monitor") from None
    except (Refused, OSError) as error:
        raise MonitorError(str(error)) from error
    try:
        yield folder
    except (Refused, OSError) as error:
        if isinstance(error, MonitorError):
            raise
        raise MonitorError(f"the monitor of {path} cannot be attached to: {error}") from error
    finally:
        os.close(folder)


def _record_in(folder: int, path: str) -> Record:
    record = read_record(folder, path)
    if record is None:
        raise MonitorError(f"{path} is not the folder of a detached monitor")
    return record


def _ended(record: Record) -> MonitorExited:
    if record.ended is None:
        return MonitorExited(f"the monitor of {record.path} was lost: its keeper was killed")
    how = exit_in_words(record.ended)
    return MonitorExited(f"the monitor of {record.path} has ended {how}", returncode=record.ended)
