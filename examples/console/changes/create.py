"""A new machine: name, size, boot source and network; or from a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypeAlias

from pydantic import Field as ModelField
from pydantic import StringConstraints

from examples.console.changes.change import BEFORE_START, Change
from examples.console.changes.setup import BOOT_SOURCE, MACHINE, ROOT
from examples.console.fields import Field, Texts, rare
from examples.console.forms import Section
from generated_vmm import Balloon, NetworkInterface, NetworkOverride
from generated_vmm.model import ApiModel

MachineName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


class NewMachine(ApiModel):
    """The name of a new machine, its abilities, and whether it starts immediately."""

    name: MachineName = ModelField(description="Small letters, digits and hyphens, at most 32.")
    has_pci: bool = ModelField(
        default=False,
        description="Devices can be added and removed then. The guest's kernel needs drivers for "
        "devices on PCI, or it finds none.",
    )
    tap: bool = ModelField(
        default=False,
        description="The console makes a tap device if none is named below, and tells the guest's "
        "kernel its address. The device goes when the machine or the console ends.",
    )
    start: bool = ModelField(default=False, description="Otherwise it waits until you start it.")
    agent: bool = ModelField(
        default=False,
        description="The image has the agent on vsock port 1024: you can run programs and move "
        "files, and copies of the machine get an identity of their own.",
    )


NAME = Field("name", "Name")
HAS_PCI = Field("has_pci", "Devices come and go while it runs (PCI)", kind="flag")
NEW = Section(
    key="new",
    title="Name and start",
    model=NewMachine,
    fields=(
        NAME,
        Field("start", "Start it at once", kind="flag", initial="true"),
        HAS_PCI,
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
    keep_identity: bool = ModelField(
        default=False,
        description="Otherwise the guest's agent, if it has one, renews host name, SSH host keys "
        "and machine id. Choose this if the agent does not respond.",
    )

    @property
    def tap_devices(self) -> dict[str, str]:
        """The tap devices by interface."""
        return {tap.iface_id: tap.host_dev_name for tap in self.taps}


class FromSnapshot(Copy):
    """A machine that continues from a snapshot."""

    snapshot: str = ModelField(min_length=1)


KEEP_IDENTITY = Field("keep_identity", "Keep the guest's identity", kind="flag")


RESTORED = Section(
    key="new",
    title="Name",
    model=FromSnapshot,
    fields=(
        NAME,
        Field("snapshot", "Snapshot"),
        Field("run", "Run it at once", kind="flag", initial="true"),
        Field("taps", "Tap devices", kind="pairs"),
        *rare((KEEP_IDENTITY,)),
    ),
    about={"a machine called": "name", "tap device": "taps", "snapshot": "snapshot"},
)
BALLOON = Section(
    key="new_balloon",
    title="",
    model=Balloon,
    fields=(),
    send=lambda vm, fields: vm.balloon.set(fields),
    fixed={"amount_mib": 0, "deflate_on_oom": True, "stats_polling_interval_s": 1},
)
NETWORK = Section(
    key="new_network",
    title="Network",
    model=NetworkInterface,
    fields=(Field("host_dev_name", "Tap device"), *rare((Field("guest_mac", "Hardware address"),))),
    send=lambda vm, fields: vm.network_interface("eth0").set(fields),
    fixed={"iface_id": "eth0"},
    optional=True,
    about={"open tap": "host_dev_name", "network": "host_dev_name"},
)
CREATE = Change(
    name="create", when=BEFORE_START, sections=(NEW, MACHINE, BOOT_SOURCE, ROOT, NETWORK, BALLOON)
)
CREATE_FROM_SNAPSHOT = Change(name="create_from_snapshot", when=BEFORE_START, sections=(RESTORED,))
PRESETS: Final[Mapping[str, Texts]] = {
    "small": {"machine_config.vcpu_count": "1", "machine_config.mem_size_mib": "128"},
    "medium": {"machine_config.vcpu_count": "2", "machine_config.mem_size_mib": "512"},
    "large": {"machine_config.vcpu_count": "4", "machine_config.mem_size_mib": "2048"},
}
"""The default sizes, as texts of the form."""
