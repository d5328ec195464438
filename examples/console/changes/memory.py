"""Memory that the guest gets and gives up while it runs."""

from __future__ import annotations

from collections.abc import Mapping

from examples.console.changes.change import Change, Panel, edit, sent
from examples.console.forms import Field, Fields, Section, rare
from examples.console.monitors import STARTED, Machine
from generated_vmm import (
    AsyncVmmClient,
    BalloonUpdate,
    MemoryHotplugConfig,
    MemoryHotplugSizeUpdate,
)
from generated_vmm.machines import Definition


def _no_balloon(machine: Machine) -> str:
    return "" if machine.configuration.balloon else "This machine has no balloon."


def _no_memory_on_top(machine: Machine) -> str:
    set_up = machine.configuration.memory_hotplug
    return "" if set_up else "Memory on top was not set up before the start."


def _with_balloon(definition: Definition, fields: Fields) -> Mapping[str, object]:
    """A machine's configuration with the size that its balloon was given."""
    configuration = definition.configuration
    if configuration.balloon is not None:
        configuration.balloon = configuration.balloon.model_copy(update=fields)
    return {"configuration": configuration}


async def _given(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    if not machine.is_started or machine.configuration.memory_hotplug is None:
        return {}
    status = await vm.hotplug_memory.get()
    taken, asked = status.plugged_size_mib, status.requested_size_mib
    return {"Asked for": f"{asked} MiB", "Taken by the guest": f"{taken} MiB"}


BALLOON = Section(
    key="balloon_size",
    title="Balloon",
    model=BalloonUpdate,
    member="balloon",
    fields=(Field("amount_mib", "Size in MiB", kind="number"),),
)
LIMIT = Section(
    key="memory_hotplug",
    title="Memory on top",
    model=MemoryHotplugConfig,
    member="memory_hotplug",
    fields=(
        Field("total_size_mib", "At most, in MiB", "number", initial="1024"),
        *rare(
            Field("slot_size_mib", "Pieces of the host, in MiB", "number"),
            Field("block_size_mib", "Pieces of the guest, in MiB", "number"),
        ),
    ),
)
REQUEST = Section(
    key="memory_size",
    title="Memory on top",
    model=MemoryHotplugSizeUpdate,
    fields=(Field("requested_size_mib", "Memory on top, in MiB", "number"),),
)
BALLOONS = Panel(
    key="balloons",
    changes=(
        Change(
            name="balloon_size",
            when=STARTED,
            unless=_no_balloon,
            sections=(BALLOON,),
            act=sent(lambda vm, fields: vm.balloon.update(fields), _with_balloon),
            unfolded=True,
        ),
    ),
)
MEMORY_ON_TOP = Panel(
    key="hotplugged",
    aside=True,
    facts=_given,
    changes=(
        edit("memory_hotplug", LIMIT),
        Change(
            name="memory_size",
            when=STARTED,
            unless=_no_memory_on_top,
            sections=(REQUEST,),
            act=sent(lambda vm, fields: vm.hotplug_memory.update(fields)),
            unfolded=True,
        ),
    ),
)
