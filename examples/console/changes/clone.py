"""A second machine that continues from the state of this one."""

from __future__ import annotations

from typing import Final

from examples.console.changes.change import AFTER_START, Change, Panel, Parsed
from examples.console.changes.create import KEEP_IDENTITY, Copy
from examples.console.changes.power import hosted
from examples.console.events import person
from examples.console.fields import Field, rare
from examples.console.forms import Section
from examples.console.hosted import HostedMonitor
from examples.console.machine import Machine, pmem_of
from examples.console.versions import ANY, in_words, is_known, since
from examples.console.words import RENEWED, SHARED
from generated_vmm import NetworkOverride, SnapshotLoadParams
from generated_vmm.machines.definition import disks_of

# The first releases in which a clone gets its own.
_TAPS: Final = since(SnapshotLoadParams, "network_overrides")
_VSOCK: Final = since(SnapshotLoadParams, "vsock_override")
_TRACKING: Final = since(SnapshotLoadParams, "track_dirty_pages")


async def _clone(monitor: HostedMonitor, parsed: Parsed) -> None:
    wish = Copy.model_validate(parsed[CLONE.key])
    if monitor.house.machines.find(wish.name) is not None:
        raise ValueError(f"There is a machine called {wish.name}.")
    clone = await monitor.machine.clone(
        wish.name,
        taps=wish.tap_devices,
        run=wish.run,
        renew=not wish.keep_identity,
        by=person().name,
    )
    made = monitor.house.adopt(clone.id)
    copied = [disk.id for disk in disks_of(clone.definition.configuration) if not disk.is_read_only]
    disks = ", ".join(copied) or "none"
    # The agent of a simulated guest is a process of this host, which keeps its identity.
    keeps = clone.definition.agent is None or monitor.house.launch.is_simulated
    lines = SHARED if keeps or wish.keep_identity else RENEWED
    detail = "\n".join(lines).format(origin=monitor.name, disks=disks)
    await made.events.add(f"Cloned from {monitor.name}.", detail=detail)


def _cannot_be_cloned(machine: Machine) -> str:
    made = machine.configuration
    if not all(device.read_only or device.path_on_host[:1] != "/" for device in pmem_of(made)):
        return "This machine writes to persistent memory, which a clone would write to as well."
    own = (
        (_TAPS, made.network_interfaces),
        (_VSOCK, made.vsock),
        (_TRACKING, made.machine_config and made.machine_config.track_dirty_pages),
    )
    releases = [release for release, used in own if used]
    if machine.version < (release := max(releases, default=ANY)):
        return f"A clone of this machine needs a monitor of release {in_words(release)} or newer."
    return ""


CLONE = Section(
    key="clone",
    title="Clone",
    model=Copy,
    fields=(
        Field("name", "Name of the clone"),
        Field("run", "Run it at once", kind="flag", initial="true"),
        *((Field("taps", "Tap devices", kind="pairs"),) if is_known(NetworkOverride) else ()),
        *rare((KEEP_IDENTITY,)),
    ),
    about={"a machine called": "name", "tap device": "taps", "disk": "name"},
)
CLONES = Panel(
    key="clones",
    aside=True,
    changes=(
        Change(
            name="clone",
            when=AFTER_START,
            unless=_cannot_be_cloned,
            sections=(CLONE,),
            act=hosted(_clone),
            hosted=True,
            unfolded=True,
            leads_on="clone.name",
        ),
    ),
)
