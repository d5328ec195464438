"""A new machine: name, size, boot source and network; or from a snapshot."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field as ModelField
from pydantic import StringConstraints

from examples.console.changes.change import STOPPED, Change
from examples.console.changes.setup import BOOT_SOURCE, MACHINE, ROOT
from examples.console.forms import Field, Section, is_known, rare
from generated_vmm import NetworkInterface, NetworkOverride
from generated_vmm.model import ApiModel

MachineName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


class NewMachine(ApiModel):
    """The name of a new machine, its abilities, and whether it starts immediately."""

    name: MachineName = ModelField(description="Small letters, digits and hyphens, at most 32.")
    tap: bool = ModelField(
        default=False,
        description="The console makes a tap device if none is named below, and tells the guest's "
        "kernel its address. It must be root, and have the Python extra network. The device goes "
        "when the machine or the console ends.",
    )
    start: bool = ModelField(default=False, description="Otherwise it waits until you start it.")
    agent: bool = ModelField(
        default=False,
        description="The image has the agent on vsock port 1024: you can run programs and move "
        "files, and copies of the machine get an identity of their own.",
    )


NAME = Field("name", "Name")
NEW = Section(
    key="new",
    title="Name and start",
    model=NewMachine,
    fields=(
        NAME,
        Field("start", "Start it at once", kind="flag", initial="true"),
        Field("tap", "Network of its own", kind="flag"),
        Field("agent", "Its guest has the agent", kind="flag"),
    ),
)


class Copy(ApiModel):
    """What a machine that continues from another one gets."""

    name: MachineName = ModelField(description="Small letters, digits and hyphens, at most 32.")
    run: bool = ModelField(default=False, description="Otherwise it stays paused until you resume.")
    taps: list[NetworkOverride] = ModelField(
        default=[],
        strict=False,
        description="Name another one for each network interface there is, as in eth0=tap7.",
    )

    @property
    def devices(self) -> dict[str, str]:
        """The tap devices by their interfaces."""
        return {tap.iface_id: tap.host_dev_name for tap in self.taps}


class FromSnapshot(Copy):
    """A machine that continues from a snapshot."""

    snapshot: str = ModelField(min_length=1)


TAPS = (Field("taps", "Tap devices", kind="pairs"),) if is_known(NetworkOverride) else ()
OF_COPIES = (
    Field("run", "Run it at once", kind="flag", initial="true"),
    *TAPS,
)


RESTORED = Section(
    key="new",
    title="Name",
    model=FromSnapshot,
    fields=(NAME, Field("snapshot", "Snapshot"), *OF_COPIES),
)
NETWORK = Section(
    key="new_network",
    title="Network",
    model=NetworkInterface,
    member="network_interfaces",
    id_name="iface_id",
    fields=(Field("host_dev_name", "Tap device"), *rare(Field("guest_mac", "Hardware address"))),
    fixed={"iface_id": "eth0"},
    optional=True,
)
CREATE = Change(name="create", when=STOPPED, sections=(NEW, MACHINE, BOOT_SOURCE, ROOT, NETWORK))
CREATE_FROM_SNAPSHOT = Change(name="create_from_snapshot", when=STOPPED, sections=(RESTORED,))
