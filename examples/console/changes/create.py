"""A new machine: name, size, boot source and network; or from a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field as ModelField

from examples.console.changes.change import BEFORE_START, Change
from examples.console.changes.setup import BOOT_SOURCE, MACHINE, ROOT
from examples.console.changes.snapshots import RESTORE, go_on
from examples.console.fields import Field, Texts, rare
from examples.console.forms import Section
from examples.console.registry import MachineName
from generated_vmm import Balloon, NetworkInterface
from generated_vmm.model import ApiModel


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
    ),
)
RESTORED = Section(key="new", title="Name", model=NewMachine, fields=(NAME, HAS_PCI))
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
CREATE_FROM_SNAPSHOT = Change(
    name="create_from_snapshot", when=BEFORE_START, sections=(RESTORED, RESTORE), act=go_on
)
PRESETS: Final[Mapping[str, Texts]] = {
    "small": {"machine_config.vcpu_count": "1", "machine_config.mem_size_mib": "128"},
    "medium": {"machine_config.vcpu_count": "2", "machine_config.mem_size_mib": "512"},
    "large": {"machine_config.vcpu_count": "4", "machine_config.mem_size_mib": "2048"},
}
"""The default sizes, as texts of the form."""
