"""Networks of guests: taps and network namespaces that end with the process that created them.

Each tap has a mark, its `ifalias`, and is removed by that mark, never by its name alone. It is
bound to a descriptor, and so to this process, until it is marked and the reaper knows the mark.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import secrets
import struct
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generated_vmm.process._async.waiting import AsyncBlock
from generated_vmm.process._sync.waiting import Block
from generated_vmm.process.child import Descriptor
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.netlink import (
    TUN,
    Mark,
    explained,
    find,
    masquerade,
    open_route,
    remove,
    take_name,
)
from generated_vmm.process.reaper_client import REAPER
from generated_vmm.process.things import Network
from generated_vmm.transport.connection import start_over_in_children

if TYPE_CHECKING:
    from generated_vmm import NetworkInterfaceFields

LONGEST_NAME = 15  # bytes: IFNAMSIZ without the end
NAME = re.compile(r"(?!\.{1,2}$)[^\s/:%]+")  # dev_valid_name of the kernel; % makes a number
CLONE_NEWNET = 0x40000000  # unshare(2)
FORWARDING = "/proc/sys/net/ipv4/ip_forward"
TUNSETIFF, TUNSETPERSIST, TUNSETOWNER = 0x400454CA, 0x400454CB, 0x400454CC  # linux/if_tun.h
TAP_EXCL = 0x0002 | 0x1000 | 0x4000 | 0x8000  # IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_TUN_EXCL
LIBC = ctypes.CDLL(None, use_errno=True)


class NetworkNamespace(AsyncBlock, Block):
    """A network namespace without a name, for the `netns` of a `JailedMonitor`.

    This process holds it by a descriptor: the kernel removes it, with the taps in it, when the
    descriptor is closed and the last process in it has ended. Needs CAP_SYS_ADMIN.
    """

    _descriptor: Descriptor | None = None

    @property
    def _is_there(self) -> bool:
        return self._descriptor is not None

    @property
    def path(self) -> str:
        """The path of the namespace. Raises `MonitorError` outside of the block."""
        return f"/proc/{os.getpid()}/fd/{self._held.number}"

    @property
    def _held(self) -> Descriptor:
        if self._descriptor is None:
            raise MonitorError("the network namespace exists only within its block")
        return self._descriptor

    def _make(self) -> None:
        with explained("no network namespace can be created", "CAP_SYS_ADMIN"):
            _switch("unshare", CLONE_NEWNET)  # only for this thread, which ends now
            self._descriptor = Descriptor(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        start_over_in_children(self)

    def _remove(self) -> None:
        self._descriptor = None

    def start_over(self) -> None:
        """Only closes the descriptor, in a forked process."""
        self._remove()

    def join(self) -> None:
        """Moves the calling thread into it for the rest of the thread's life. Raises OSError."""
        _switch("setns", self._held.number, CLONE_NEWNET)


class Tap(AsyncBlock, Block):
    """A tap device of the host, for the network interface of one guest.

        with Tap(address="172.16.0.1/30", nat=True) as tap, Monitor() as monitor:
            monitor.client.network_interface("eth0").set(**tap.interface)

    `address` is the host's address on it, with its prefix; or `bridge` names the host's bridge to
    which it is added. `nat` hides the network behind the host's addresses; the host must forward.
    `guest` (with its prefix) and `gateway` are the guest's address and gateway, by default the
    first free address of the network, and the host's address. `uid` is the user that may open it,
    for example that of a `JailedMonitor`. `namespace` is the `NetworkNamespace` that it is in. The
    default name is a free one. Needs CAP_NET_ADMIN. Invalid options raise ValueError. If the host
    refuses, `MonitorError` is raised and nothing is left behind.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        address: str | None = None,
        bridge: str | None = None,
        nat: bool = False,
        guest: str | None = None,
        gateway: str | None = None,
        uid: int | None = None,
        namespace: NetworkNamespace | None = None,
    ) -> None:
        self.name = f"tap{secrets.token_hex(6)}" if name is None else name
        self.address = None if address is None else IPv4Interface(address)
        if NAME.fullmatch(self.name) is None or len(os.fsencode(self.name)) > LONGEST_NAME:
            raise ValueError(f"name is {name!r}; it must have 1 to {LONGEST_NAME} bytes, no / : %")
        if self.address is not None and self.address.network.prefixlen == 32:
            raise ValueError(f"address is {address}; its network has no free address for a guest")
        if bridge is not None and address is not None:
            raise ValueError("address and bridge exclude each other: the bridge has the address")
        if nat and address is None:
            raise ValueError("nat needs an address")
        self.guest = _first_free(self.address) if guest is None else IPv4Interface(guest)
        host = None if self.address is None else self.address.ip
        self.gateway = host if gateway is None else IPv4Address(gateway)
        self._bridge, self._nat, self._uid, self._namespace = bridge, nat, uid, namespace
        self._mark: Mark | None = None

    @property
    def interface(self) -> NetworkInterfaceFields:
        """Arguments of `network_interface(...).set`: the tap, and a MAC of the guest's address."""
        if self.guest is None:
            return {"host_dev_name": self.name}
        mac = bytes((6, 0)) + self.guest.ip.packed  # 6: locally administered, unicast
        return {"host_dev_name": self.name, "guest_mac": mac.hex(":")}

    @property
    def boot_argument(self) -> str:
        """The kernel argument `ip=` that gives the guest's `eth0` its address.

        Source: Documentation/admin-guide/nfs/nfsroot.rst of Linux. ValueError without an address.
        """
        if self.guest is None:
            raise ValueError("the guest's address is not known: pass address or guest")
        return f"ip={self.guest.ip}::{self.gateway or ''}:{self.guest.netmask}::eth0:off"

    @property
    def _is_there(self) -> bool:
        return self._mark is not None and self._mark.pid == os.getpid()

    def _make(self) -> None:
        if self._namespace is not None:
            self._namespace.join()
        mark = self._mark = Mark.new(has_table=self._nat)
        try:
            with explained(f"the tap {self.name} cannot be created"), open_route() as route:
                take_name(route, self.name)
                if self._namespace is None:  # else the kernel removes it
                    REAPER.entrust(mark.token, [(Network(self._what(mark)), None)])
                self._make_marked(route, mark)
        except BaseException:
            self._remove()
            raise

    def _what(self, mark: Mark) -> dict[str, str]:
        return {"name": self.name, "mark": str(mark)}

    def _make_marked(self, route: Any, mark: Mark) -> None:
        tun = Descriptor(os.open(TUN, os.O_RDWR))
        request = struct.pack("16sH22x", os.fsencode(self.name), TAP_EXCL)
        fcntl.ioctl(tun.number, TUNSETIFF, request)
        if self._uid is not None:
            fcntl.ioctl(tun.number, TUNSETOWNER, self._uid)
        index = find(route, self.name)["index"]
        route.link("set", index=index, ifalias=str(mark))
        if self._bridge is not None:
            route.link("set", index=index, master=find(route, self._bridge)["index"])
        if self.address is not None:
            length = self.address.network.prefixlen
            route.addr("add", index=index, address=str(self.address.ip), prefixlen=length)
        route.link("set", index=index, state="up")
        if self._nat and self.address is not None:
            if self._namespace is not None:  # on the host, its owner decides
                Path(FORWARDING).write_text("1")
            elif Path(FORWARDING).read_text().strip() == "0":
                raise MonitorError("the host does not forward: sysctl -w net.ipv4.ip_forward=1")
            masquerade(mark.table, self.address, self.name)
        fcntl.ioctl(tun.number, TUNSETPERSIST, 1)

    def _remove(self) -> None:
        mark, namespace = self._mark, self._namespace
        if mark is None or not self._is_there:  # or it belongs to the parent process
            return
        if namespace is None or namespace._is_there:
            with explained(f"the tap {self.name} cannot be removed"):
                if namespace is not None:
                    namespace.join()
                remove(self._what(mark))
        REAPER.release(mark.token)
        self._mark = None


def _switch(call: str, *given: int) -> None:
    """Calls unshare(2) or setns(2) for this thread. Raises OSError."""
    if getattr(LIBC, call)(*given):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _first_free(address: IPv4Interface | None) -> IPv4Interface | None:
    if address is None:
        return None
    free = next(each for each in address.network.hosts() if each != address.ip)
    return IPv4Interface((free, address.network.prefixlen))
