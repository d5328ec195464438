"""A machine's configuration, with which it can be started again after its monitor has ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from examples.console.machine import pmem_of
from examples.console.taps import MadeTap
from generated_vmm import AsyncVmmClient, CpuConfig, FullVmConfiguration, Logger, SerialDevice
from generated_vmm.model import ApiModel

Device = TypeVar("Device")
_TOLD = ("logger", "serial", "cpu_config")


class SnapshotFiles(BaseModel):
    """Where a snapshot is."""

    snapshot_path: str
    mem_file_path: str


class Kept(BaseModel):
    """The last response of `GET /vm/config`, and other input that the monitor has accepted.

    With `has_pci`, devices can be added and removed while the guest runs. `last_snapshot` is the
    base of the running machine's next diff snapshot. `runs`: the monitor was started, and has not
    been seen to end. It runs as user `uid` in a jail, or unjailed if that is 0. `backing` is the
    file with the memory of a restored machine, `tap` the device that the console creates for it.
    """

    has_pci: bool = False
    uid: int = 0
    runs: bool = False
    backing: str = ""
    configuration: FullVmConfiguration | None = None
    metadata: dict[str, JsonValue] | None = None
    logger: Logger | None = None
    serial: SerialDevice | None = None
    cpu_config: CpuConfig | None = None
    last_snapshot: SnapshotFiles | None = None
    tap: MadeTap | None = None

    def uses(self, path: Path) -> bool:
        """Whether the machine uses a file, or runs from it."""
        real = path.resolve()
        return any(Path(used).resolve() == real for used in (self.backing, *self.files()) if used)

    def writes(self, path: Path) -> bool:
        """Whether the machine writes to a file."""
        made, real = self.configuration, path.resolve()
        if made is None:
            return False
        written = [
            *(one.path_on_host for one in made.drives or [] if not one.is_read_only),
            *(one.path_on_host for one in pmem_of(made) if not one.read_only),
        ]
        return any(Path(one).resolve() == real for one in written if one)

    def files(self) -> Iterator[str]:
        """All paths that the monitor opens at a start; some may be empty."""
        if (made := self.configuration) is None:
            return
        if made.boot_source is not None:
            yield made.boot_source.kernel_image_path
            yield made.boot_source.initrd_path or ""
        yield from (one.path_on_host or "" for one in made.drives or [])
        yield from (one.path_on_host for one in pmem_of(made))

    @property
    def needed_tap(self) -> MadeTap | None:
        """The console's tap device, if an interface still has it."""
        made = self.configuration
        names = [one.host_dev_name for one in made.network_interfaces or []] if made else []
        return self.tap if self.tap and self.tap.name in names else None

    @property
    def can_boot(self) -> bool:
        """Whether there is a kernel."""
        made = self.configuration
        return made is not None and made.boot_source is not None

    @property
    def told(self) -> Mapping[str, ApiModel]:
        """Input that no monitor shows, by the key of its form's section."""
        told = {key: getattr(self, key) for key in _TOLD}
        return {key: model for key, model in told.items() if model is not None}

    def note(self, key: str, fields: Mapping[str, object]) -> None:
        """Store the accepted input of a section, if the monitor does not show it itself."""
        match key:
            case "logger":
                self.logger = Logger.model_validate(fields)
            case "serial":
                self.serial = SerialDevice.model_validate(fields)
            case "cpu_config":
                self.cpu_config = CpuConfig.model_validate(fields["contents"])
            case "cpu_template":
                self.cpu_config = None

    def see(self, configuration: FullVmConfiguration) -> None:
        """Store what a monitor shows; after a restore it may not know the boot source."""
        source, before = configuration.boot_source, self.configuration
        if source is not None and source.kernel_image_path:
            self.configuration = _in_order(configuration, before)
        elif before is not None:
            booted = configuration.model_copy()
            booted.boot_source = before.boot_source
            self.configuration = _in_order(booted, before)
        elif configuration.drives or configuration.network_interfaces or pmem_of(configuration):
            self.configuration = configuration


def _in_order(
    shown: FullVmConfiguration, before: FullVmConfiguration | None
) -> FullVmConfiguration:
    """The drives and interfaces as they were added: a guest names them by their order.

    A monitor that has started shows them by their names.
    """
    if before is None:
        return shown
    drives = [drive.drive_id for drive in before.drives or []]
    interfaces = [interface.iface_id for interface in before.network_interfaces or []]
    ordered = shown.model_copy()
    ordered.drives = _sorted(shown.drives or [], drives, lambda one: one.drive_id)
    ordered.network_interfaces = _sorted(
        shown.network_interfaces or [], interfaces, lambda one: one.iface_id
    )
    return ordered


def _sorted(
    devices: list[Device], before: list[str], name: Callable[[Device], str]
) -> list[Device]:
    """The previous ones in their order, then the new ones."""
    place = {known: number for number, known in enumerate(before)}
    return sorted(devices, key=lambda device: place.get(name(device), len(before)))


async def furnish(vm: AsyncVmmClient, kept: Kept, *, boot: bool = True) -> None:
    """Send the configuration to an empty monitor, and `boot` it if possible; raises VmmError."""
    for call in _told(vm, kept):
        await call
    if kept.configuration is not None:
        for call in _made_of(vm, kept.configuration, kept.cpu_config):
            await call
    if kept.metadata:
        await vm.mmds.set(kept.metadata)
    if kept.can_boot and boot:
        await vm.action("InstanceStart")


def _told(vm: AsyncVmmClient, kept: Kept) -> Iterator[Awaitable[None]]:
    if kept.logger is not None:
        yield vm.logger.set(kept.logger)
    if kept.serial is not None:
        yield vm.serial.set(kept.serial)


def _made_of(
    vm: AsyncVmmClient, made: FullVmConfiguration, template: CpuConfig | None
) -> Iterator[Awaitable[None]]:
    """The order that the monitor needs: memory before the balloon, interfaces before MMDS."""
    if made.machine_config is not None:
        yield vm.machine_config.set(made.machine_config)
    if template is not None:
        yield vm.cpu_config.set(template)
    if made.boot_source is not None:
        yield vm.boot_source.set(made.boot_source)
    yield from _devices(vm, made)
    if made.balloon is not None:
        yield vm.balloon.set(made.balloon)
    if (memory := made.memory_hotplug) is not None:
        yield vm.hotplug_memory.set(memory)
    if made.mmds_config is not None:
        yield vm.mmds.config.set(made.mmds_config)


def _devices(vm: AsyncVmmClient, made: FullVmConfiguration) -> Iterator[Awaitable[None]]:
    for drive in made.drives or []:
        yield vm.drive(drive.drive_id).set(drive)
    for interface in made.network_interfaces or []:
        yield vm.network_interface(interface.iface_id).set(interface)
    for device in pmem_of(made):
        yield vm.pmem(device.id).set(device)
    if made.vsock is not None:
        yield vm.vsock.set(made.vsock)
    if made.entropy is not None:
        yield vm.entropy.set(made.entropy)
