"""Devices that have an id, or one of a kind: drives, network interfaces, pmem, vsock, entropy.

Each body is a model, a mapping, or keyword arguments. Values that the model refuses raise
`pydantic.ValidationError` before anything is sent; calls raise `VmmError`.
"""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated.models import (
    Drive,
    DriveFields,
    EntropyDevice,
    EntropyDeviceFields,
    NetworkInterface,
    NetworkInterfaceFields,
    PartialDrive,
    PartialDriveFields,
    PartialNetworkInterface,
    PartialNetworkInterfaceFields,
    PartialPmem,
    PartialPmemFields,
    Pmem,
    PmemFields,
    SerialDevice,
    SerialDeviceFields,
    Vsock,
    VsockFields,
)
from generated_vmm._generated.operations import (
    delete_guest_drive_by_id,
    delete_guest_network_interface_by_id,
    delete_guest_pmem_by_id,
    patch_guest_drive_by_id,
    patch_guest_network_interface_by_id,
    patch_guest_pmem_by_id,
    put_entropy_device,
    put_guest_drive_by_id,
    put_guest_network_interface_by_id,
    put_guest_pmem_by_id,
    put_guest_vsock,
    put_serial_device,
)
from generated_vmm.binding import Fields, as_model, require_id
from generated_vmm.facade.sender import Resource, Sender


class DriveResource(Resource):
    """One block device."""

    def __init__(self, sender: Sender, drive_id: str) -> None:
        super().__init__(sender)
        self._drive_id = require_id("drive_id", drive_id)

    @overload
    def set(self, body: Drive | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[DriveFields]) -> None: ...
    def set(self, body: Drive | Fields | None = None, /, **fields: object) -> None:
        """Sets the drive up, before the start (PUT /drives/{drive_id}).

        After the start it is hotplugged; needs a monitor started with --enable-pci.
        """
        self._send(
            put_guest_drive_by_id(
                self._drive_id, as_model(Drive, body, fields, drive_id=self._drive_id)
            )
        )

    @overload
    def update(self, body: PartialDrive | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[PartialDriveFields]) -> None: ...
    def update(self, body: PartialDrive | Fields | None = None, /, **fields: object) -> None:
        """Changes file or rate limiter, after the start (PATCH /drives/{drive_id})."""
        self._send(
            patch_guest_drive_by_id(
                self._drive_id, as_model(PartialDrive, body, fields, drive_id=self._drive_id)
            )
        )

    def delete(self) -> None:
        """Unplugs the drive, after the start (DELETE /drives/{drive_id}); needs --enable-pci."""
        self._send(delete_guest_drive_by_id(self._drive_id))


class NetworkInterfaceResource(Resource):
    """One network interface."""

    def __init__(self, sender: Sender, iface_id: str) -> None:
        super().__init__(sender)
        self._iface_id = require_id("iface_id", iface_id)

    @overload
    def set(self, body: NetworkInterface | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[NetworkInterfaceFields]) -> None: ...
    def set(self, body: NetworkInterface | Fields | None = None, /, **fields: object) -> None:
        """Sets the interface up, before the start (PUT /network-interfaces/{iface_id}).

        After the start it is hotplugged; needs a monitor started with --enable-pci.
        """
        self._send(
            put_guest_network_interface_by_id(
                self._iface_id, as_model(NetworkInterface, body, fields, iface_id=self._iface_id)
            )
        )

    @overload
    def update(self, body: PartialNetworkInterface | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[PartialNetworkInterfaceFields]) -> None: ...
    def update(
        self, body: PartialNetworkInterface | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes rate limiters, after the start (PATCH /network-interfaces/{iface_id})."""
        self._send(
            patch_guest_network_interface_by_id(
                self._iface_id,
                as_model(PartialNetworkInterface, body, fields, iface_id=self._iface_id),
            )
        )

    def delete(self) -> None:
        """Unplugs the interface, after the start (DELETE /network-interfaces/{iface_id}).

        Needs a monitor started with --enable-pci.
        """
        self._send(delete_guest_network_interface_by_id(self._iface_id))


class PmemResource(Resource):
    """One persistent memory device."""

    def __init__(self, sender: Sender, id: str) -> None:
        super().__init__(sender)
        self._id = require_id("id", id)

    @overload
    def set(self, body: Pmem | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[PmemFields]) -> None: ...
    def set(self, body: Pmem | Fields | None = None, /, **fields: object) -> None:
        """Sets the device up, before the start (PUT /pmem/{id}).

        After the start it is hotplugged; needs a monitor started with --enable-pci.
        """
        self._send(put_guest_pmem_by_id(self._id, as_model(Pmem, body, fields, id=self._id)))

    @overload
    def update(self, body: PartialPmem | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[PartialPmemFields]) -> None: ...
    def update(self, body: PartialPmem | Fields | None = None, /, **fields: object) -> None:
        """Changes the rate limiter, after the start (PATCH /pmem/{id})."""
        self._send(
            patch_guest_pmem_by_id(self._id, as_model(PartialPmem, body, fields, id=self._id))
        )

    def delete(self) -> None:
        """Unplugs the device, after the start (DELETE /pmem/{id}); needs --enable-pci."""
        self._send(delete_guest_pmem_by_id(self._id))


class VsockResource(Resource):
    """The socket device between host and guest."""

    @overload
    def set(self, body: Vsock | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[VsockFields]) -> None: ...
    def set(self, body: Vsock | Fields | None = None, /, **fields: object) -> None:
        """Sets the device up and binds its unix socket, before the start (PUT /vsock)."""
        self._send(put_guest_vsock(as_model(Vsock, body, fields)))


class EntropyResource(Resource):
    """The entropy device."""

    @overload
    def set(self, body: EntropyDevice | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[EntropyDeviceFields]) -> None: ...
    def set(self, body: EntropyDevice | Fields | None = None, /, **fields: object) -> None:
        """Sets the device up, before the start (PUT /entropy); every field may be left out."""
        self._send(put_entropy_device(as_model(EntropyDevice, body, fields)))


class SerialResource(Resource):
    """Where the guest's serial console goes."""

    @overload
    def set(self, body: SerialDevice | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[SerialDeviceFields]) -> None: ...
    def set(self, body: SerialDevice | Fields | None = None, /, **fields: object) -> None:
        """Sends the console to a file of the host, before the start (PUT /serial)."""
        self._send(put_serial_device(as_model(SerialDevice, body, fields)))
