"""Snapshots of a machine, and a second machine that continues from its state."""

from __future__ import annotations

from pydantic import Field as ModelField

from examples.console.changes.change import Change, Panel, Parsed
from examples.console.changes.create import NAME, OF_COPIES, Copy
from examples.console.events import person
from examples.console.forms import Field, Section
from examples.console.hosted import HostedMonitor
from examples.console.monitors import STARTED
from examples.console.words import RENEWED, SHARED
from generated_vmm.machines.records import disks_of
from generated_vmm.model import ApiModel


class SnapshotName(ApiModel):
    """The name of a snapshot."""

    name: str = ModelField(description="Snapshots may have the same name.", max_length=80)


async def _write(monitor: HostedMonitor, parsed: Parsed) -> None:
    await monitor.machine.snapshot(str(parsed[NAMED.key]["name"]), by=person().name)


async def _clone(monitor: HostedMonitor, parsed: Parsed) -> None:
    wish = Copy.model_validate(parsed[CLONE.key])
    clone = await monitor.machine.clone(
        wish.name, taps=wish.devices, run=wish.run, by=person().name
    )
    made = monitor.house.adopt(clone.id)
    copied = [disk.id for disk in disks_of(clone.definition.configuration) if not disk.is_read_only]
    disks = ", ".join(copied) or "none"
    # The agent of a simulated guest is a process of this host, which keeps its identity.
    keeps = clone.definition.agent is None or monitor.house.launch.is_simulated
    lines = SHARED if keeps else RENEWED
    detail = "\n".join(lines).format(origin=monitor.name, disks=disks)
    await made.events.add(f"Cloned from {monitor.name}.", detail=detail)


NAMED = Section(
    key="named_snapshot",
    title="Snapshot",
    model=SnapshotName,
    fields=(Field("name", "Name"),),
)
CLONE = Section(
    key="clone",
    title="Clone",
    model=Copy,
    fields=(NAME, *OF_COPIES),
)
SNAPSHOTS = Panel(
    key="create",
    changes=(
        Change(
            name="named_snapshot",
            right="operate",
            when=STARTED,
            sections=(NAMED,),
            of_hosted=_write,
            unfolded=True,
        ),
    ),
)
CLONES = Panel(
    key="clones",
    aside=True,
    changes=(
        Change(
            name="clone",
            when=STARTED,
            sections=(CLONE,),
            of_hosted=_clone,
            unfolded=True,
            leads_on="clone.name",
        ),
    ),
)
