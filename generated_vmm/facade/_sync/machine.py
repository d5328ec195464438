# Derived from `generated_vmm/facade/_async/machine.py` by `make codegen`. Do not edit.
"""The machine itself: boot source, size, state, snapshots.

Each body is a model, a mapping, or keyword arguments. Invalid values raise
`pydantic.ValidationError` before anything is sent; calls raise `VmmError`.
"""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated import models, operations
from generated_vmm.binding import Fields, as_model
from generated_vmm.facade._sync.sender import Resource


class BootSourceResource(Resource):
    """The boot source: kernel, initrd, kernel command line."""

    @overload
    def set(self, body: models.BootSource | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.BootSourceFields]) -> None: ...
    def set(self, body: models.BootSource | Fields | None = None, /, **fields: object) -> None:
        """Sets the boot source, before the start (PUT /boot-source)."""
        self._send(operations.put_guest_boot_source(as_model(models.BootSource, body, fields)))


class MachineConfigResource(Resource):
    """The number of vCPUs, the memory size in MiB, and related options."""

    def get(self) -> models.MachineConfiguration:
        """The configuration, at any time (GET /machine-config)."""
        return self._send(operations.get_machine_configuration())

    @overload
    def set(self, body: models.MachineConfiguration | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.MachineConfigurationFields]) -> None: ...
    def set(
        self, body: models.MachineConfiguration | Fields | None = None, /, **fields: object
    ) -> None:
        """Replaces the configuration, before the start (PUT /machine-config)."""
        self._send(
            operations.put_machine_configuration(
                as_model(models.MachineConfiguration, body, fields)
            )
        )

    @overload
    def update(self, body: models.PartialMachineConfiguration | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[models.PartialMachineConfigurationFields]) -> None: ...
    def update(
        self, body: models.PartialMachineConfiguration | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes the passed fields, at least one, before the start (PATCH /machine-config)."""
        self._send(
            operations.patch_machine_configuration(
                as_model(models.PartialMachineConfiguration, body, fields)
            )
        )


class CpuConfigResource(Resource):
    """A custom CPU template; its possible fields depend on the host's architecture."""

    @overload
    def set(self, body: models.CpuConfig | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.CpuConfigFields]) -> None: ...
    def set(self, body: models.CpuConfig | Fields | None = None, /, **fields: object) -> None:
        """Sets the CPU template, before the start (PUT /cpu-config)."""
        self._send(operations.put_cpu_configuration(as_model(models.CpuConfig, body, fields)))


class SnapshotResource(Resource):
    """Snapshots of the whole microVM. Both calls may take long: see `with_options(timeout=)`."""

    @overload
    def create(self, body: models.SnapshotCreateParams | Fields, /) -> None: ...
    @overload
    def create(self, /, **fields: Unpack[models.SnapshotCreateParamsFields]) -> None: ...
    def create(
        self, body: models.SnapshotCreateParams | Fields | None = None, /, **fields: object
    ) -> None:
        """Writes memory and state to files of the host, when paused (PUT /snapshot/create)."""
        self._send(operations.create_snapshot(as_model(models.SnapshotCreateParams, body, fields)))

    @overload
    def load(self, body: models.SnapshotLoadParams | Fields, /) -> None: ...
    @overload
    def load(self, /, **fields: Unpack[models.SnapshotLoadParamsFields]) -> None: ...
    def load(
        self, body: models.SnapshotLoadParams | Fields | None = None, /, **fields: object
    ) -> None:
        """Restores a snapshot (PUT /snapshot/load).

        Only before any part of the boot is configured. If loading fails, the monitor exits.
        """
        self._send(operations.load_snapshot(as_model(models.SnapshotLoadParams, body, fields)))


class VmResource(Resource):
    """The state of the vCPUs: running or paused."""

    @overload
    def update(self, body: models.Vm | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[models.VmFields]) -> None: ...
    def update(self, body: models.Vm | Fields | None = None, /, **fields: object) -> None:
        """Pauses or resumes a started microVM (PATCH /vm); the same state twice is no error."""
        self._send(operations.patch_vm(as_model(models.Vm, body, fields)))


class VmConfigResource(Resource):
    """The configuration, as far as the monitor shows it."""

    def get(self) -> models.FullVmConfiguration:
        """The whole configuration, at any time (GET /vm/config)."""
        return self._send(operations.get_export_vm_config())
