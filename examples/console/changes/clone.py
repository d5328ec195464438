"""A second machine that continues from the state of this one."""

from __future__ import annotations

from typing import Final

from pydantic import Field as ModelField

from examples.console.changes.change import AFTER_START, Change, Panel, Parsed
from examples.console.changes.create import MachineName
from examples.console.changes.power import hosted
from examples.console.events import person
from examples.console.fields import Field
from examples.console.forms import Section
from examples.console.hosted import HostedMonitor
from examples.console.machine import Machine, pmem_of
from examples.console.versions import ANY, in_words, is_known, since
from examples.console.words import RENEWED, SHARED
from generated_vmm import NetworkOverride, SnapshotLoadParams
from generated_vmm.machines.definition import disks_of
from generated_vmm.model import ApiModel

# The first releases in which a clone gets its own.
_TAPS: Final = since(SnapshotLoadParams, "network_overrides")
_VSOCK: Final = since(SnapshotLoadParams, "vsock_override")
_TRACKING: Final = since(SnapshotLoadParams, "track_dirty_pages")


class Wish(ApiModel):
    """The name of a clone, and its own devices."""

    name: MachineName = ModelField(description="Small letters, digits and hyphens, at most 32.")
    run: bool = ModelField(default=False, description="Otherwise it stays paused until you resume.")
    taps: list[NetworkOverride] = ModelField(
        default=[],
        strict=False,
        description="The clone cannot share those of this machine: name another one for each "
        "network interface there is, as in eth0=tap7.",
    )


async def _clone(monitor: HostedMonitor, parsed: Parsed) -> None:
    wish = Wish.model_validate(parsed[CLONE.key])
    if monitor.house.machines.find(wish.name) is not None:
        raise ValueError(f"There is a machine called {wish.name}.")
    taps = {tap.iface_id: tap.host_dev_name for tap in wish.taps}
    by = person().name
    clone = await monitor.machine.clone(wish.name, taps=taps, run=wish.run, by=by)
    made = monitor.house.adopt(clone.id)
    copied = [disk.id for disk in disks_of(clone.definition.configuration) if not disk.is_read_only]
    disks = ", ".join(copied) or "none"
    lines = SHARED if clone.definition.agent is None else RENEWED
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
    model=Wish,
    fields=(
        Field("name", "Name of the clone"),
        Field("run", "Run it at once", kind="flag", initial="true"),
        *((Field("taps", "Tap devices", kind="pairs"),) if is_known(NetworkOverride) else ()),
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
