"""Machines that survive their control plane: created, started, cloned and restored in a folder.

    with Machines("/var/lib/machines") as machines:
        machines.reconcile()
        web = machines.create("web", Definition(configuration=configuration))
        web.start()

`AsyncMachines`, `AsyncMachine` and `AsyncSnapshot` have the same members, awaited.
"""

from generated_vmm.machines._async.machines import AsyncMachine, AsyncMachines, AsyncSnapshot
from generated_vmm.machines._sync.machines import Machine, Machines, Snapshot
from generated_vmm.machines.records import (
    Definition,
    End,
    Jail,
    MachineBusy,
    MachineError,
    MachineRecord,
    Operation,
    Report,
    RestartPolicy,
    SnapshotRecord,
    TapDevice,
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
