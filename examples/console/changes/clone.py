"""A second machine that continues from the state of this one."""

from __future__ import annotations

from typing import Final

from examples.console.changes.change import AFTER_START, Change, Panel, Parsed
from examples.console.changes.power import hosted
from examples.console.cloning import Wish, clone
from examples.console.fields import Field
from examples.console.forms import Section
from examples.console.hosted import HostedMonitor
from examples.console.machine import Machine, pmem_of
from examples.console.versions import ANY, in_words, is_known, since
from generated_vmm import NetworkOverride, SnapshotLoadParams

# The first releases in which a clone gets its own.
_TAPS: Final = since(SnapshotLoadParams, "network_overrides")
_VSOCK: Final = since(SnapshotLoadParams, "vsock_override")
_TRACKING: Final = since(SnapshotLoadParams, "track_dirty_pages")


async def _clone(monitor: HostedMonitor, parsed: Parsed) -> None:
    await clone(monitor, Wish.model_validate(parsed[CLONE.key]))


def _cannot_be_cloned(machine: Machine) -> str:
    made = machine.configuration
    if not all(device.read_only for device in pmem_of(made)):
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
