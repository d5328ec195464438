"""Taps for networks of guests, which end with the process that created them."""

from __future__ import annotations

import os
import re
import secrets
import socket
from importlib.util import find_spec
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING
from weakref import WeakSet

from generated_vmm.misuse import require_kind, warn_caller
from generated_vmm.process._async.waiting import AsyncBlock
from generated_vmm.process._sync.waiting import Block
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import LONGEST_END
from generated_vmm.process.nursery import NURSERY
from generated_vmm.transport.connection import start_over_in_children

if TYPE_CHECKING:
    from generated_vmm import NetworkInterfaceFields

LONGEST_NAME = 15  # bytes: IFNAMSIZ without the end
NAME = re.compile(r"(?!\.{1,2}$)[^\s/:%]+")  # dev_valid_name of the kernel; % makes a number
_TAPS: WeakSet[Tap] = WeakSet()

if find_spec("pyroute2") is None:
    explanation = "networks of guests need: pip install 'generated-vmm[network]'"
    raise ModuleNotFoundError(explanation, name="pyroute2")


class Tap(AsyncBlock, Block):
    """A tap device of the host, for the network interface of one guest.

        with Tap(address="172.16.0.1/30", nat=True) as tap, Monitor() as monitor:
            monitor.client.network_interface("eth0").set(**tap.interface)

    `address` is the host's address on it, with its prefix; or `bridge` names the host's bridge to
    which it is added. `nat` hides the network behind the host's addresses; the host must forward.
    `uid` is the user that may open it, by default the caller's, for example that of a
    `JailedMonitor`. The default name is a free one. The tap is in the network namespace of the
    thread. Needs CAP_NET_ADMIN. Invalid options raise ValueError. If the host refuses,
    `MonitorError` is raised and nothing is left behind.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        address: str | None = None,
        bridge: str | None = None,
        nat: bool = False,
        uid: int | None = None,
    ) -> None:
        self.name = f"tap{secrets.token_hex(6)}" if name is None else name
        if NAME.fullmatch(self.name) is None or len(os.fsencode(self.name)) > LONGEST_NAME:
            raise ValueError(f"name is {name!r}; it must have 1 to {LONGEST_NAME} bytes, no / : %")
        if bridge is not None and address is not None:
            raise ValueError("address and bridge exclude each other: the bridge has the address")
        if nat and address is None:
            raise ValueError("nat needs an address")
        require_kind("uid", uid, "the number of a user", int)
        self.address = None if address is None else _host_address(address)
        self.guest = None if self.address is None else _first_free(self.address)
        self._bridge, self._nat, self._uid = bridge, nat, uid
        self._connection: socket.socket | None = None
        for tap in [tap for tap in list(_TAPS) if tap._connection is not None]:
            if self.address and tap.address and tap.address.network.overlaps(self.address.network):
                warn_caller(f"{tap.name} has {tap.address} already: packets go to one tap")
        _TAPS.add(self)

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
        if self.guest is None or self.address is None:
            raise ValueError("the guest's address is not known: pass address")
        return f"ip={self.guest.ip}::{self.address.ip}:{self.guest.netmask}::eth0:off"

    def _make(self) -> None:
        mark = f"generated-vmm-{secrets.token_hex(8)}{'-nat' if self._nat else ''}"
        tap = {
            **{"name": self.name, "mark": mark, "uid": self._uid, "nat": self._nat},
            **{"bridge": self._bridge, "address": self.address and str(self.address)},
        }
        start_over_in_children(self)
        try:
            self._connection = NURSERY.order("tap", self.name, mark, content=tap)
        except OSError as error:
            raise MonitorError(f"the tap {self.name} cannot be created: {error}") from error
        word, *failure = self._report(self._connection)
        if word != "ready":
            self.start_over()
            raise MonitorError(failure[0])

    def _remove(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with connection:
                messages.send(connection, "remove")
                _, _, *left = self._report(connection)
            if left:
                raise MonitorError("; ".join(left))

    def _report(self, connection: socket.socket) -> list[str]:
        """The next report of its keeper; the nursery removes the tap of one that was killed."""
        connection.settimeout(LONGEST_END)
        try:
            received = messages.receive(connection)
        except TimeoutError:
            raise MonitorError(f"the keeper of the tap {self.name} does not answer") from None
        lost = ["removed", f"the keeper of the tap {self.name} was killed"]
        return lost if received is None else received[0]

    def start_over(self) -> None:
        """Closes the connection in a forked process: the tap belongs to the parent."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _host_address(value: str) -> IPv4Interface:
    """An address of a host, with its prefix. Raises ValueError."""
    found, network = IPv4Interface(value), IPv4Interface(value).network
    no_hosts = () if network.prefixlen == 31 else (network[0], network[-1])
    if found.ip in no_hosts:
        needed = "the address of a host, with its prefix, as in 172.16.0.1/30"
        raise ValueError(f"address is {value}; it must be {needed}")
    return found


def _first_free(address: IPv4Interface) -> IPv4Interface:
    free = next(each for each in address.network.hosts() if each != address.ip)
    return IPv4Interface((free, address.network.prefixlen))
