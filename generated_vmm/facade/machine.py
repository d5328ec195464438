"""The machine itself: what it boots, how large it is, its state, its snapshots.

Each body is a model, a mapping, or keyword arguments. Values that the model refuses raise
`pydantic.ValidationError` before anything is sent; calls raise `VmmError`.
"""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated.models import (
    BootSource,
    BootSourceFields,
    CpuConfig,
    CpuConfigFields,
    FullVmConfiguration,
    MachineConfiguration,
    MachineConfigurationFields,
    PartialMachineConfiguration,
    PartialMachineConfigurationFields,
    SnapshotCreateParams,
    SnapshotCreateParamsFields,
    SnapshotLoadParams,
    SnapshotLoadParamsFields,
    Vm,
    VmFields,
)
from generated_vmm._generated.operations import (
    create_snapshot,
    get_export_vm_config,
    get_machine_configuration,
    load_snapshot,
    patch_machine_configuration,
    patch_vm,
    put_cpu_configuration,
    put_guest_boot_source,
    put_machine_configuration,
)
from generated_vmm.binding import Fields, as_model
from generated_vmm.facade.sender import Resource


class BootSourceResource(Resource):
    """What the microVM boots: kernel, initrd, kernel command line."""

    @overload
    def set(self, body: BootSource | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[BootSourceFields]) -> None: ...
    def set(self, body: BootSource | Fields | None = None, /, **fields: object) -> None:
        """Says what to boot, before the start (PUT /boot-source)."""
        self._send(put_guest_boot_source(as_model(BootSource, body, fields)))


class MachineConfigResource(Resource):
    """The number of vCPUs, the memory size in MiB, and what goes with them."""

    def get(self) -> MachineConfiguration:
        """The configuration, at any time (GET /machine-config)."""
        return self._send(get_machine_configuration())

    @overload
    def set(self, body: MachineConfiguration | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[MachineConfigurationFields]) -> None: ...
    def set(self, body: MachineConfiguration | Fields | None = None, /, **fields: object) -> None:
        """Replaces the configuration, before the start (PUT /machine-config)."""
        self._send(put_machine_configuration(as_model(MachineConfiguration, body, fields)))

    @overload
    def update(self, body: PartialMachineConfiguration | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[PartialMachineConfigurationFields]) -> None: ...
    def update(
        self, body: PartialMachineConfiguration | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes the fields given, at least one, before the start (PATCH /machine-config)."""
        self._send(patch_machine_configuration(as_model(PartialMachineConfiguration, body, fields)))


class CpuConfigResource(Resource):
    """A custom CPU template; which fields it may have depends on the host's architecture."""

    @overload
    def set(self, body: CpuConfig | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[CpuConfigFields]) -> None: ...
    def set(self, body: CpuConfig | Fields | None = None, /, **fields: object) -> None:
        """Sets the CPU template, before the start (PUT /cpu-config)."""
        self._send(put_cpu_configuration(as_model(CpuConfig, body, fields)))


class SnapshotResource(Resource):
    """Snapshots of the whole microVM. Both calls may take long: see `with_options(timeout=)`."""

    @overload
    def create(self, body: SnapshotCreateParams | Fields, /) -> None: ...
    @overload
    def create(self, /, **fields: Unpack[SnapshotCreateParamsFields]) -> None: ...
    def create(
        self, body: SnapshotCreateParams | Fields | None = None, /, **fields: object
    ) -> None:
        """Writes memory and state to files of the host, while paused (PUT /snapshot/create)."""
        self._send(create_snapshot(as_model(SnapshotCreateParams, body, fields)))

    @overload
    def load(self, body: SnapshotLoadParams | Fields, /) -> None: ...
    @overload
    def load(self, /, **fields: Unpack[SnapshotLoadParamsFields]) -> None: ...
    def load(self, body: SnapshotLoadParams | Fields | None = None, /, **fields: object) -> None:
        """Restores a snapshot (PUT /snapshot/load).

        Only before anything that matters to the boot is configured. The monitor ends itself when
        loading fails.
        """
        self._send(load_snapshot(as_model(SnapshotLoadParams, body, fields)))


class VmResource(Resource):
    """Whether the vCPUs run."""

    @overload
    def update(self, body: Vm | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[VmFields]) -> None: ...
    def update(self, body: Vm | Fields | None = None, /, **fields: object) -> None:
        """Pauses or resumes a started microVM (PATCH /vm); no change is no error."""
        self._send(patch_vm(as_model(Vm, body, fields)))


class VmConfigResource(Resource):
    """Everything the monitor shows of the configuration."""

    def get(self) -> FullVmConfiguration:
        """The whole configuration, at any time (GET /vm/config)."""
        return self._send(get_export_vm_config())
