"""The errors of machines.

MachineError (a VmmError)
  MachineBusy    another operation runs; `operation` says whose, which and since when
"""

from __future__ import annotations

from generated_vmm.errors import VmmError
from generated_vmm.machines.records import Operation


class MachineError(VmmError):
    """An operation that is not possible; nothing was changed."""


def unknown(machine: str) -> MachineError:
    """The error for an id that no machine has."""
    return MachineError(f"no machine has the id {machine!r}, or not any more; `find` takes a name")


class MachineBusy(MachineError):
    """Another operation of the machine runs, in this process or another one.

    `busy_with` is None in the moment before the other operation is recorded.
    """

    def __init__(self, name: str, busy_with: Operation | None) -> None:
        what = busy_with.in_words if busy_with else "another operation begins"
        super().__init__(f"{name} is busy: {what}")
        self.busy_with = busy_with
