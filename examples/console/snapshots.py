"""The snapshots of this console's machines, as pages show them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from examples.console.host import Host
from generated_vmm.machines import MachineError


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole snapshot of the machine with the id `machine`; `taken` are its bytes on disk."""

    id: str
    name: str
    machine: str
    machine_name: str
    taken: int
    made: datetime


def snapshots_in(host: Host) -> list[Snapshot]:
    """Every snapshot, the newest first; one that is removed meanwhile is left out."""
    found: list[Snapshot] = []
    for one in host.machines.snapshots():
        with suppress(MachineError, OSError):
            record = one.record
            found.append(
                Snapshot(
                    id=record.id,
                    name=record.name,
                    machine=record.machine,
                    machine_name=record.machine_name,
                    taken=one.size,
                    made=record.created_at,
                )
            )
    return found
