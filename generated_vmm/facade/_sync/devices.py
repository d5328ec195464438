# Derived from `generated_vmm/facade/_async/devices.py` by `make codegen`. Do not edit.
"""Devices: drives, network interfaces, pmem, vsock, entropy, serial console.

Each body is a model, a mapping, or keyword arguments. Invalid values raise
`pydantic.ValidationError` before anything is sent; calls raise `VmmError`.
"""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated import models, operations
from generated_vmm.binding import Fields, as_model, require_id
from generated_vmm.facade._sync.sender import DeviceResource, Resource, Sender


class DriveResource(DeviceResource):
    """One block device."""

    def __init__(self, sender: Sender, drive_id: str) -> None:
        super().__init__(sender, require_id("drive_id", drive_id))

    @overload
    def set(self, body: models.Drive | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.DriveFields]) -> None: ...
    def set(self, body: models.Drive | Fields | None = None, /, **fields: object) -> None:
        """Sets up the drive, before the start (PUT /drives/{drive_id}).

        After the start it is hotplugged; needs a monitor started with --enable-pci.
        """
        self._send(
            operations.put_guest_drive_by_id(
                self._id, as_model(models.Drive, body, fields, self._id)
            )
        )

    @overload
    def update(self, body: models.PartialDrive | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[models.PartialDriveFields]) -> None: ...
    def update(self, body: models.PartialDrive | Fields | None = None, /, **fields: object) -> None:
        """Changes the file or the rate limiter, after the start (PATCH /drives/{drive_id})."""
        self._send(
            operations.patch_guest_drive_by_id(
                self._id, as_model(models.PartialDrive, body, fields, self._id)
            )
        )

    def delete(self) -> None:
        """Unplugs the drive, after the start (DELETE /drives/{drive_id}); needs --enable-pci."""
        self._send(operations.delete_guest_drive_by_id(self._id))


class NetworkInterfaceResource(DeviceResource):
    """One network interface."""

    def __init__(self, sender: Sender, iface_id: str) -> None:
        super().__init__(sender, require_id("iface_id", iface_id))

    @overload
    def set(self, body: models.NetworkInterface | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.NetworkInterfaceFields]) -> None: ...
    def set(
        self, body: models.NetworkInterface | Fields | None = None, /, **fields: object
    ) -> None:
        """Sets up the interface, before the start (PUT /network-interfaces/{iface_id}).

        After the start it is hotplugged; needs a monitor started with --enable-pci.
        """
        self._send(
            operations.put_guest_network_interface_by_id(
                self._id, as_model(models.NetworkInterface, body, fields, self._id)
            )
        )

    @overload
    def update(self, body: models.PartialNetworkInterface | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[models.PartialNetworkInterfaceFields]) -> None: ...
    def update(
        self, body: models.PartialNetworkInterface | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes rate limiters, after the start (PATCH /network-interfaces/{iface_id})."""
        self._send(
            operations.patch_guest_network_interface_by_id(
                self._id, as_model(models.PartialNetworkInterface, body, fields, self._id)
            )
        )

    def delete(self) -> None:
        """Unplugs the interface, after the start (DELETE /network-interfaces/{iface_id}).

        Needs a monitor started with --enable-pci.
        """
        self._send(operations.delete_guest_network_interface_by_id(self._id))


class PmemResource(DeviceResource):
    """One persistent memory device."""

    def __init__(self, sender: Sender, id: str) -> None:
        super().__init__(sender, require_id("id", id))

    @overload
    def set(self, body: models.Pmem | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.PmemFields]) -> None: ...
    def set(self, body: models.Pmem | Fields | None = None, /, **fields: object) -> None:
        """Sets up the device, before the start (PUT /pmem/{id}).

        After the start it is hotplugged; needs a monitor started with --enable-pci.
        """
        self._send(
            operations.put_guest_pmem_by_id(self._id, as_model(models.Pmem, body, fields, self._id))
        )

    @overload
    def update(self, body: models.PartialPmem | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[models.PartialPmemFields]) -> None: ...
    def update(self, body: models.PartialPmem | Fields | None = None, /, **fields: object) -> None:
        """Changes the rate limiter, after the start (PATCH /pmem/{id})."""
        self._send(
            operations.patch_guest_pmem_by_id(
                self._id, as_model(models.PartialPmem, body, fields, self._id)
            )
        )

    def delete(self) -> None:
        """Unplugs the device, after the start (DELETE /pmem/{id}); needs --enable-pci."""
        self._send(operations.delete_guest_pmem_by_id(self._id))


class VsockResource(Resource):
    """The vsock device: sockets between host and guest."""

    @overload
    def set(self, body: models.Vsock | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.VsockFields]) -> None: ...
    def set(self, body: models.Vsock | Fields | None = None, /, **fields: object) -> None:
        """Sets up the device and binds its unix socket, before the start (PUT /vsock)."""
        self._send(operations.put_guest_vsock(as_model(models.Vsock, body, fields)))


class EntropyResource(Resource):
    """The entropy device."""

    @overload
    def set(self, body: models.EntropyDevice | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.EntropyDeviceFields]) -> None: ...
    def set(self, body: models.EntropyDevice | Fields | None = None, /, **fields: object) -> None:
        """Sets up the device, before the start (PUT /entropy); every field is optional."""
        self._send(operations.put_entropy_device(as_model(models.EntropyDevice, body, fields)))


class SerialResource(Resource):
    """The output of the guest's serial console."""

    @overload
    def set(self, body: models.SerialDevice | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.SerialDeviceFields]) -> None: ...
    def set(self, body: models.SerialDevice | Fields | None = None, /, **fields: object) -> None:
        """Writes the console to a file of the host, before the start (PUT /serial)."""
        self._send(operations.put_serial_device(as_model(models.SerialDevice, body, fields)))
