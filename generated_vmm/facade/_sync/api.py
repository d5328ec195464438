# Derived from `generated_vmm/facade/_async/api.py` by `make codegen`. Do not edit.
"""Every operation of the monitor as a member."""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated import models, operations
from generated_vmm.binding import Fields, as_model
from generated_vmm.facade._sync.devices import (
    DriveResource,
    EntropyResource,
    NetworkInterfaceResource,
    PmemResource,
    SerialResource,
    VsockResource,
)
from generated_vmm.facade._sync.machine import (
    BootSourceResource,
    CpuConfigResource,
    MachineConfigResource,
    SnapshotResource,
    VmConfigResource,
    VmResource,
)
from generated_vmm.facade._sync.memory import BalloonResource, HotplugMemoryResource
from generated_vmm.facade._sync.monitor import LoggerResource, MetricsResource, MmdsResource
from generated_vmm.facade._sync.sender import Resource, Sender


class MonitorApi(Resource):
    """The resources of one microVM, each with its calls."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender)
        self.balloon = BalloonResource(sender)
        self.boot_source = BootSourceResource(sender)
        self.cpu_config = CpuConfigResource(sender)
        self.entropy = EntropyResource(sender)
        self.hotplug_memory = HotplugMemoryResource(sender)
        self.logger = LoggerResource(sender)
        self.machine_config = MachineConfigResource(sender)
        self.metrics = MetricsResource(sender)
        self.mmds = MmdsResource(sender)
        self.serial = SerialResource(sender)
        self.snapshot = SnapshotResource(sender)
        self.vm = VmResource(sender)
        self.vm_config = VmConfigResource(sender)
        self.vsock = VsockResource(sender)

    def drive(self, drive_id: str) -> DriveResource:
        """The drive with this id; raises ValueError for an invalid id."""
        return DriveResource(self._sender, drive_id)

    def network_interface(self, iface_id: str) -> NetworkInterfaceResource:
        """The network interface with this id; raises ValueError for an invalid id."""
        return NetworkInterfaceResource(self._sender, iface_id)

    def pmem(self, id: str) -> PmemResource:
        """The pmem device with this id; raises ValueError for an invalid id."""
        return PmemResource(self._sender, id)

    def get_instance_info(self) -> models.InstanceInfo:
        """Id, state and version of the instance, at any time (GET /)."""
        return self._send(operations.describe_instance())

    def get_version(self) -> models.FirecrackerVersion:
        """The monitor's version, at any time (GET /version)."""
        return self._send(operations.get_firecracker_version())

    @overload
    def create_sync_action(self, body: models.InstanceActionInfo | Fields, /) -> None: ...
    @overload
    def create_sync_action(self, /, **fields: Unpack[models.InstanceActionInfoFields]) -> None: ...
    def create_sync_action(
        self, body: models.InstanceActionInfo | Fields | None = None, /, **fields: object
    ) -> None:
        """Starts the microVM, flushes metrics or sends Ctrl+Alt+Del (PUT /actions)."""
        self._send(operations.create_sync_action(as_model(models.InstanceActionInfo, body, fields)))

    def action(self, action_type: models.InstanceActionInfoActionType) -> None:
        """`create_sync_action` for an action by name (PUT /actions)."""
        self.create_sync_action(action_type=action_type)
