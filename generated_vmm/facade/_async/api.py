"""Every operation of the monitor as a member."""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated import models, operations
from generated_vmm.binding import Fields, as_model
from generated_vmm.facade._async.devices import (
    AsyncDriveResource,
    AsyncEntropyResource,
    AsyncNetworkInterfaceResource,
    AsyncPmemResource,
    AsyncSerialResource,
    AsyncVsockResource,
)
from generated_vmm.facade._async.machine import (
    AsyncBootSourceResource,
    AsyncCpuConfigResource,
    AsyncMachineConfigResource,
    AsyncSnapshotResource,
    AsyncVmConfigResource,
    AsyncVmResource,
)
from generated_vmm.facade._async.memory import (
    AsyncBalloonResource,
    AsyncHotplugMemoryResource,
)
from generated_vmm.facade._async.monitor import (
    AsyncLoggerResource,
    AsyncMetricsResource,
    AsyncMmdsResource,
)
from generated_vmm.facade._async.sender import AsyncResource, AsyncSender


class AsyncMonitorApi(AsyncResource):
    """The resources of one microVM, each with its calls."""

    def __init__(self, sender: AsyncSender) -> None:
        super().__init__(sender)
        self.balloon = AsyncBalloonResource(sender)
        self.boot_source = AsyncBootSourceResource(sender)
        self.cpu_config = AsyncCpuConfigResource(sender)
        self.entropy = AsyncEntropyResource(sender)
        self.hotplug_memory = AsyncHotplugMemoryResource(sender)
        self.logger = AsyncLoggerResource(sender)
        self.machine_config = AsyncMachineConfigResource(sender)
        self.metrics = AsyncMetricsResource(sender)
        self.mmds = AsyncMmdsResource(sender)
        self.serial = AsyncSerialResource(sender)
        self.snapshot = AsyncSnapshotResource(sender)
        self.vm = AsyncVmResource(sender)
        self.vm_config = AsyncVmConfigResource(sender)
        self.vsock = AsyncVsockResource(sender)

    def drive(self, drive_id: str) -> AsyncDriveResource:
        """The drive with this id; raises ValueError for an invalid id."""
        return AsyncDriveResource(self._sender, drive_id)

    def network_interface(self, iface_id: str) -> AsyncNetworkInterfaceResource:
        """The network interface with this id; raises ValueError for an invalid id."""
        return AsyncNetworkInterfaceResource(self._sender, iface_id)

    def pmem(self, id: str) -> AsyncPmemResource:
        """The pmem device with this id; raises ValueError for an invalid id."""
        return AsyncPmemResource(self._sender, id)

    async def get_instance_info(self) -> models.InstanceInfo:
        """Id, state and version of the instance, at any time (GET /)."""
        return await self._send(operations.describe_instance())

    async def get_version(self) -> models.FirecrackerVersion:
        """The monitor's version, at any time (GET /version)."""
        return await self._send(operations.get_firecracker_version())

    @overload
    async def create_sync_action(self, body: models.InstanceActionInfo | Fields, /) -> None: ...
    @overload
    async def create_sync_action(
        self, /, **fields: Unpack[models.InstanceActionInfoFields]
    ) -> None: ...
    async def create_sync_action(
        self, body: models.InstanceActionInfo | Fields | None = None, /, **fields: object
    ) -> None:
        """Starts the microVM, flushes metrics or sends Ctrl+Alt+Del (PUT /actions)."""
        await self._send(
            operations.create_sync_action(as_model(models.InstanceActionInfo, body, fields))
        )

    async def action(self, action_type: models.InstanceActionInfoActionType) -> None:
        """`create_sync_action` for an action by name (PUT /actions)."""
        await self.create_sync_action(action_type=action_type)
