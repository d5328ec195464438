"""Memory that is added to the guest while it runs."""

from __future__ import annotations

from collections.abc import Mapping

from examples.console.changes.change import AFTER_START, BEFORE_START, Change, Panel
from examples.console.fields import Field, rare
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import AsyncVmmClient, MemoryHotplugConfig, MemoryHotplugSizeUpdate


def _not_set_up(machine: Machine) -> str:
    set_up = machine.configuration.memory_hotplug
    return "" if set_up else "Memory on top was not set up before the start."


async def _facts(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    set_up = machine.configuration.memory_hotplug
    if set_up is None:
        return {"On top at most": "nothing"}
    facts = {"On top at most": f"{set_up.total_size_mib} MiB"}
    if not machine.is_started:
        return facts
    status = await vm.hotplug_memory.get()
    taken, asked = status.plugged_size_mib, status.requested_size_mib
    return facts | {"Asked for": f"{asked} MiB", "Taken by the guest": f"{taken} MiB"}


SIZES = Section(
    key="memory_hotplug",
    title="Memory on top",
    model=MemoryHotplugConfig,
    since=(1, 14),
    fields=(
        Field("total_size_mib", "At most, in MiB", "number", initial="1024"),
        *rare(
            (
                Field("slot_size_mib", "Pieces of the host, in MiB", "number"),
                Field("block_size_mib", "Pieces of the guest, in MiB", "number"),
            )
        ),
    ),
    send=lambda vm, fields: vm.hotplug_memory.set(fields),
    current=lambda machine, item: machine.configuration.memory_hotplug,
    about={
        "total size": "total_size_mib",
        "slot size": "slot_size_mib",
        "block size": "block_size_mib",
    },
)
REQUEST = Section(
    key="memory_size",
    title="Memory on top",
    model=MemoryHotplugSizeUpdate,
    since=(1, 14),
    fields=(Field("requested_size_mib", "Memory on top, in MiB", "number"),),
    send=lambda vm, fields: vm.hotplug_memory.update(fields),
    about={"size": "requested_size_mib"},
)
HOTPLUGGED_MEMORY = Panel(
    key="hotplugged",
    aside=True,
    facts=_facts,
    changes=(
        Change(name="memory_hotplug", when=BEFORE_START, sections=(SIZES,)),
        Change(
            name="memory_size",
            when=AFTER_START,
            unless=_not_set_up,
            sections=(REQUEST,),
            unfolded=True,
        ),
    ),
)
