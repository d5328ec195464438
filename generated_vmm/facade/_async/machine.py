"""The machine itself: boot source, size, state, snapshots.

Each body is a model, a mapping, or keyword arguments. Invalid values raise
`pydantic.ValidationError` before anything is sent; calls raise `VmmError`.
"""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated import models, operations
from generated_vmm.binding import Fields, as_model
from generated_vmm.facade._async.sender import AsyncResource


class AsyncBootSourceResource(AsyncResource):
    """The boot source: kernel, initrd, kernel command line."""

    @overload
    async def set(self, body: models.BootSource | Fields, /) -> None: ...
    @overload
    async def set(self, /, **fields: Unpack[models.BootSourceFields]) -> None: ...
    async def set(
        self, body: models.BootSource | Fields | None = None, /, **fields: object
    ) -> None:
        """Sets the boot source, before the start (PUT /boot-source)."""
        await self._send(
            operations.put_guest_boot_source(as_model(models.BootSource, body, fields))
        )


class AsyncMachineConfigResource(AsyncResource):
    """The number of vCPUs, the memory size in MiB, and related options."""

    async def get(self) -> models.MachineConfiguration:
        """The configuration, at any time (GET /machine-config)."""
        return await self._send(operations.get_machine_configuration())

    @overload
    async def set(self, body: models.MachineConfiguration | Fields, /) -> None: ...
    @overload
    async def set(self, /, **fields: Unpack[models.MachineConfigurationFields]) -> None: ...
    async def set(
        self, body: models.MachineConfiguration | Fields | None = None, /, **fields: object
    ) -> None:
        """Replaces the configuration, before the start (PUT /machine-config)."""
        await self._send(
            operations.put_machine_configuration(
                as_model(models.MachineConfiguration, body, fields)
            )
        )

    @overload
    async def update(self, body: models.PartialMachineConfiguration | Fields, /) -> None: ...
    @overload
    async def update(
        self, /, **fields: Unpack[models.PartialMachineConfigurationFields]
    ) -> None: ...
    async def update(
        self, body: models.PartialMachineConfiguration | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes the passed fields, at least one, before the start (PATCH /machine-config)."""
        await self._send(
            operations.patch_machine_configuration(
                as_model(models.PartialMachineConfiguration, body, fields)
            )
        )


class AsyncCpuConfigResource(AsyncResource):
    """A custom CPU template; its possible fields depend on the host's architecture."""

    @overload
    async def set(self, body: models.CpuConfig | Fields, /) -> None: ...
    @overload
    async def set(self, /, **fields: Unpack[models.CpuConfigFields]) -> None: ...
    async def set(self, body: models.CpuConfig | Fields | None = None, /, **fields: object) -> None:
        """Sets the CPU template, before the start (PUT /cpu-config)."""
        await self._send(operations.put_cpu_configuration(as_model(models.CpuConfig, body, fields)))


class AsyncSnapshotResource(AsyncResource):
    """Snapshots of the whole microVM. Both calls may take long: see `with_options(timeout=)`."""

    @overload
    async def create(self, body: models.SnapshotCreateParams | Fields, /) -> None: ...
    @overload
    async def create(self, /, **fields: Unpack[models.SnapshotCreateParamsFields]) -> None: ...
    async def create(
        self, body: models.SnapshotCreateParams | Fields | None = None, /, **fields: object
    ) -> None:
        """Writes memory and state to files of the host, when paused (PUT /snapshot/create)."""
        await self._send(
            operations.create_snapshot(as_model(models.SnapshotCreateParams, body, fields))
        )

    @overload
    async def load(self, body: models.SnapshotLoadParams | Fields, /) -> None: ...
    @overload
    async def load(self, /, **fields: Unpack[models.SnapshotLoadParamsFields]) -> None: ...
    async def load(
        self, body: models.SnapshotLoadParams | Fields | None = None, /, **fields: object
    ) -> None:
        """Restores a snapshot (PUT /snapshot/load).

        Only before any part of the boot is configured. If loading fails, the monitor exits.
        """
        await self._send(
            operations.load_snapshot(as_model(models.SnapshotLoadParams, body, fields))
        )


class AsyncVmResource(AsyncResource):
    """The state of the vCPUs: running or paused."""

    @overload
    async def update(self, body: models.Vm | Fields, /) -> None: ...
    @overload
    async def update(self, /, **fields: Unpack[models.VmFields]) -> None: ...
    async def update(self, body: models.Vm | Fields | None = None, /, **fields: object) -> None:
        """Pauses or resumes a started microVM (PATCH /vm); the same state twice is no error."""
        await self._send(operations.patch_vm(as_model(models.Vm, body, fields)))


class AsyncVmConfigResource(AsyncResource):
    """The configuration, as far as the monitor shows it."""

    async def get(self) -> models.FullVmConfiguration:
        """The whole configuration, at any time (GET /vm/config)."""
        return await self._send(operations.get_export_vm_config())
