"""Devices that have an id, or one of a kind: drives, network interfaces, pmem, vsock, entropy.

Derived from `generated_vmm/facade/devices.py` by `make codegen`. Do not edit.
"""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated.async_facade.sender import AsyncResource, AsyncSender
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


class AsyncDriveResource(AsyncResource):
    """One block device."""

    def __init__(self, sender: AsyncSender, drive_id: str) -> None:
        super().__init__(sender)
        self._drive_id = require_id("drive_id", drive_id)

    @overload
    async def set(self, body: Drive | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[DriveFields]) -> None: ...

    async def set(self, body: Drive | Fields | None = None, /, **fields: object) -> None:
        """Sets the drive up, before the start (PUT /drives/{drive_id}).

        After the start it is hotplugged; needs a monitor started with --enable-pci.
        """
        await self._send(
            put_guest_drive_by_id(
                self._drive_id, as_model(Drive, body, fields, drive_id=self._drive_id)
            )
        )

    @overload
    async def update(self, body: PartialDrive | Fields, /) -> None: ...

    @overload
    async def update(self, /, **fields: Unpack[PartialDriveFields]) -> None: ...

    async def update(self, body: PartialDrive | Fields | None = None, /, **fields: object) -> None:
        """Changes file or rate limiter, after the start (PATCH /drives/{drive_id})."""
        await self._send(
            patch_guest_drive_by_id(
                self._drive_id, as_model(PartialDrive, body, fields, drive_id=self._drive_id)
            )
        )

    async def delete(self) -> None:
        """Unplugs the drive, after the start (DELETE /drives/{drive_id}); needs --enable-pci."""
        await self._send(delete_guest_drive_by_id(self._drive_id))


class AsyncNetworkInterfaceResource(AsyncResource):
    """One network interface."""

    def __init__(self, sender: AsyncSender, iface_id: str) -> None:
        super().__init__(sender)
        self._iface_id = require_id("iface_id", iface_id)

    @overload
    async def set(self, body: NetworkInterface | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[NetworkInterfaceFields]) -> None: ...

    async def set(self, body: NetworkInterface | Fields | None = None, /, **fields: object) -> None:
        """Sets the interface up, before the start (PUT /network-interfaces/{iface_id}).

        After the start it is hotplugged; needs a monitor started with --enable-pci.
        """
        await self._send(
            put_guest_network_interface_by_id(
                self._iface_id, as_model(NetworkInterface, body, fields, iface_id=self._iface_id)
            )
        )

    @overload
    async def update(self, body: PartialNetworkInterface | Fields, /) -> None: ...

    @overload
    async def update(self, /, **fields: Unpack[PartialNetworkInterfaceFields]) -> None: ...

    async def update(
        self, body: PartialNetworkInterface | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes rate limiters, after the start (PATCH /network-interfaces/{iface_id})."""
        await self._send(
            patch_guest_network_interface_by_id(
                self._iface_id,
                as_model(PartialNetworkInterface, body, fields, iface_id=self._iface_id),
            )
        )

    async def delete(self) -> None:
        """Unplugs the interface, after the start (DELETE /network-interfaces/{iface_id}).

        Needs a monitor started with --enable-pci.
        """
        await self._send(delete_guest_network_interface_by_id(self._iface_id))


class AsyncPmemResource(AsyncResource):
    """One persistent memory device."""

    def __init__(self, sender: AsyncSender, id: str) -> None:
        super().__init__(sender)
        self._id = require_id("id", id)

    @overload
    async def set(self, body: Pmem | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[PmemFields]) -> None: ...

    async def set(self, body: Pmem | Fields | None = None, /, **fields: object) -> None:
        """Sets the device up, before the start (PUT /pmem/{id}).

        After the start it is hotplugged; needs a monitor started with --enable-pci.
        """
        await self._send(put_guest_pmem_by_id(self._id, as_model(Pmem, body, fields, id=self._id)))

    @overload
    async def update(self, body: PartialPmem | Fields, /) -> None: ...

    @overload
    async def update(self, /, **fields: Unpack[PartialPmemFields]) -> None: ...

    async def update(self, body: PartialPmem | Fields | None = None, /, **fields: object) -> None:
        """Changes the rate limiter, after the start (PATCH /pmem/{id})."""
        await self._send(
            patch_guest_pmem_by_id(self._id, as_model(PartialPmem, body, fields, id=self._id))
        )

    async def delete(self) -> None:
        """Unplugs the device, after the start (DELETE /pmem/{id}); needs --enable-pci."""
        await self._send(delete_guest_pmem_by_id(self._id))


class AsyncVsockResource(AsyncResource):
    """The socket device between host and guest."""

    @overload
    async def set(self, body: Vsock | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[VsockFields]) -> None: ...

    async def set(self, body: Vsock | Fields | None = None, /, **fields: object) -> None:
        """Sets the device up and binds its unix socket, before the start (PUT /vsock)."""
        await self._send(put_guest_vsock(as_model(Vsock, body, fields)))


class AsyncEntropyResource(AsyncResource):
    """The entropy device."""

    @overload
    async def set(self, body: EntropyDevice | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[EntropyDeviceFields]) -> None: ...

    async def set(self, body: EntropyDevice | Fields | None = None, /, **fields: object) -> None:
        """Sets the device up, before the start (PUT /entropy); every field may be left out."""
        await self._send(put_entropy_device(as_model(EntropyDevice, body, fields)))


class AsyncSerialResource(AsyncResource):
    """Where the guest's serial console goes."""

    @overload
    async def set(self, body: SerialDevice | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[SerialDeviceFields]) -> None: ...

    async def set(self, body: SerialDevice | Fields | None = None, /, **fields: object) -> None:
        """Sends the console to a file of the host, before the start (PUT /serial)."""
        await self._send(put_serial_device(as_model(SerialDevice, body, fields)))
