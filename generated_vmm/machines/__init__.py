"""Machines that survive their control plane: created, started, cloned and restored in a folder.

    with Machines("/var/lib/machines") as machines:
        machines.reconcile()
        web = machines.create("web", Definition(configuration=configuration))
        web.start()

`AsyncMachines`, `AsyncMachine` and `AsyncSnapshot` have the same members, awaited.
"""

from generated_vmm.machines._async.machine import AsyncMachine, AsyncSnapshot
from generated_vmm.machines._async.machines import AsyncMachines
from generated_vmm.machines._sync.machine import Machine, Snapshot
from generated_vmm.machines._sync.machines import Machines
from generated_vmm.machines.definition import Definition, Jail, RestartPolicy, TapDevice
from generated_vmm.machines.records import (
    End,
    MachineBusy,
    MachineError,
    MachineRecord,
    Operation,
    Report,
    SnapshotRecord,
)

__all__ = [
    "AsyncMachine",
    "AsyncMachines",
    "AsyncSnapshot",
    "Definition",
    "End",
    "Jail",
    "Machine",
    "MachineBusy",
    "MachineError",
    "MachineRecord",
    "Machines",
    "Operation",
    "Report",
    "RestartPolicy",
    "Snapshot",
    "SnapshotRecord",
    "TapDevice",
]
