"""A monitor's state and configuration, read at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from examples.console.versions import Version, version_of
from generated_vmm import (
    Drive,
    FullVmConfiguration,
    InstanceInfo,
    MachineConfiguration,
    NetworkInterface,
    Pmem,
)
from generated_vmm.model import Body

NOT_STARTED: Final = "Not started"
RUNNING: Final = "Running"
PAUSED: Final = "Paused"
STARTING: Final = "Starting"
ENDED: Final = "Ended"
BUSY: Final = "Busy"
NO_ANSWER: Final = "No answer"
"""The states of a machine: the first three are the monitor's, the others the console's."""


def pmem_of(made: FullVmConfiguration) -> list[Pmem]:
    """The persistent memory; none with a client for a monitor before 1.14."""
    return made.pmem or []


def static_template_of(configured: MachineConfiguration | None) -> str:
    """The built-in CPU template, or `None`; none with a client for a monitor without them."""
    return getattr(configured, "cpu_template", None) or "None"


@dataclass(frozen=True, slots=True)
class Machine:
    """State and configuration; `metadata` is None unless it was requested and returned.

    `has_pci` is None if it is unknown how the monitor was started. `told` has this console's input
    that the monitor has accepted but does not show, by the key of the form's section.
    """

    instance: InstanceInfo
    configuration: FullVmConfiguration
    metadata: dict[str, JsonValue] | None = None
    is_hosted: bool = False
    has_pci: bool | None = None
    told: Mapping[str, Body] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """What the monitor was started to call the machine."""
        return self.instance.id

    @property
    def state(self) -> str:
        """`Not started`, `Running` or `Paused`."""
        return self.instance.state

    @property
    def is_set_up(self) -> bool:
        """Whether the monitor has a kernel to boot."""
        source = self.configuration.boot_source
        return source is not None and bool(source.kernel_image_path)

    @property
    def is_started(self) -> bool:
        """Whether the machine has booted, so that most of its devices are fixed."""
        return self.state != NOT_STARTED

    @property
    def version(self) -> Version:
        """The release of the monitor."""
        return version_of(self.instance.vmm_version)

    @property
    def drives(self) -> list[Drive]:
        """The drives, in the monitor's order."""
        return self.configuration.drives or []

    @property
    def interfaces(self) -> list[NetworkInterface]:
        """The network interfaces, in the monitor's order."""
        return self.configuration.network_interfaces or []

    @property
    def memory_mib(self) -> int:
        """The guest's memory in MiB."""
        configured = self.configuration.machine_config
        return configured.mem_size_mib if configured else 0

    @property
    def processors(self) -> int:
        """How many processors the guest has."""
        configured = self.configuration.machine_config
        return configured.vcpu_count if configured else 1

    @property
    def has_statistics(self) -> bool:
        """Whether the balloon reports the guest's use of memory."""
        balloon = self.configuration.balloon
        return self.is_started and balloon is not None and bool(balloon.stats_polling_interval_s)
