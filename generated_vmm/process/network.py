"""Networks of guests: taps and network namespaces that end with the process that created them."""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import socket
import threading
from importlib.util import find_spec
from ipaddress import IPv4Address, IPv4Interface
from typing import TYPE_CHECKING
from weakref import WeakSet

from generated_vmm.misuse import require_kind, warn_caller
from generated_vmm.process._async.waiting import AsyncBlock
from generated_vmm.process._sync.waiting import Block
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import LONGEST_END, NETWORK, Descriptor, join
from generated_vmm.process.nursery import NURSERY
from generated_vmm.transport.connection import start_over_in_children

if TYPE_CHECKING:
    from generated_vmm import NetworkInterfaceFields

LONGEST_NAME = 15  # bytes: IFNAMSIZ without the end
NAME = re.compile(r"(?!\.{1,2}$)[^\s/:%]+")  # dev_valid_name of the kernel; % makes a number
TUN = "/dev/net/tun"
_TAPS: WeakSet[Tap] = WeakSet()
LIBC = ctypes.CDLL(None, use_errno=True)

if find_spec("pyroute2") is None:
    explanation = "networks of guests need: pip install 'generated-vmm[network]'"
    raise ModuleNotFoundError(explanation, name="pyroute2")


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
        if LIBC.unshare(NETWORK):  # only for this thread, which ends now
            reason = os.strerror(ctypes.get_errno())
            what = f"no network namespace can be created: {reason}"
            raise MonitorError(f"{what}; that needs CAP_SYS_ADMIN, which root has")
        self._descriptor = Descriptor(os.open, "/proc/thread-self/ns/net", os.O_RDONLY)
        start_over_in_children(self)

    def _remove(self) -> None:
        self._descriptor = None

    def start_over(self) -> None:
        """Only closes the descriptor, in a forked process."""
        self._remove()

    def join(self) -> None:
        """Moves the calling thread into it for the rest of the thread's life. Raises OSError."""
        join(self._held.number)


class Tap(AsyncBlock, Block):
    """A tap device of the host, for the network interface of one guest.

        with Tap(address="172.16.0.1/30", nat=True) as tap, Monitor() as monitor:
            monitor.client.network_interface("eth0").set(**tap.interface)

    `address` is the host's address on it, with its prefix; or `bridge` names the host's bridge to
    which it is added. `nat` hides the network behind the host's addresses; the host must forward.
    `guest` and `gateway` are the guest's address and gateway, by default the first free address of
    the network, and the host's address; without `address`, `guest` needs its prefix. `uid` is the
    user that may open it, by default the caller's, for example that of a `JailedMonitor`.
    `namespace` is the `NetworkNamespace` that it is in. The default name is a free one. Needs
    CAP_NET_ADMIN. Invalid options raise ValueError. If the host refuses, `MonitorError` is raised
    and nothing is left behind.
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
        if NAME.fullmatch(self.name) is None or len(os.fsencode(self.name)) > LONGEST_NAME:
            raise ValueError(f"name is {name!r}; it must have 1 to {LONGEST_NAME} bytes, no / : %")
        if bridge is not None and address is not None:
            raise ValueError("address and bridge exclude each other: the bridge has the address")
        if nat and address is None:
            raise ValueError("nat needs an address")
        require_kind("uid", uid, "the number of a user", int)
        require_kind("namespace", namespace, "a NetworkNamespace", NetworkNamespace)
        self.address = None if address is None else _interface("address", address)
        host = None if self.address is None else self.address.ip
        self.guest = _first_free(self.address) if guest is None else self._guest_of(guest)
        self.gateway = host if gateway is None else self._gateway_of(gateway)
        self._bridge, self._nat, self._uid, self._namespace = bridge, nat, uid, namespace
        self._connection: socket.socket | None = None
        for tap in [tap for tap in list(_TAPS) if tap._is_there and tap._namespace is namespace]:
            if self.address and tap.address and tap.address.network.overlaps(self.address.network):
                warn_caller(f"{tap.name} has {tap.address} already: packets go to one tap")
        _TAPS.add(self)
        self._removing = threading.Lock()  # two threads may remove it, no signal handler does

    def _guest_of(self, value: str) -> IPv4Interface:
        """The guest's address in the network of `address`, or with its own prefix. ValueError."""
        if self.address is None:
            return _interface("guest", value)
        network = self.address.network
        found = _interface("guest", value if "/" in value else f"{value}/{network.prefixlen}")
        if found.network != network or found.ip == self.address.ip:
            raise ValueError(f"guest is {value}; it must be another address of {network}")
        return found

    def _gateway_of(self, value: str) -> IPv4Address:
        """Raises ValueError unless the guest reaches it in its own network."""
        if self.guest is None:
            raise ValueError("gateway needs the guest's address: pass address or guest")
        length = self.guest.network.prefixlen
        found = _interface("gateway", f"{value}/{length}")
        if found.network != self.guest.network or found.ip == self.guest.ip:
            raise ValueError(
                f"gateway is {value}; it must be another address of {self.guest.network}"
            )
        return found.ip

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
        return self._connection is not None

    def _make(self) -> None:
        if self._namespace is not None:
            self._namespace.join()
        mark = f"generated-vmm-{secrets.token_hex(8)}{'-nat' if self._nat else ''}"
        tap = {
            **{"name": self.name, "mark": mark, "tun": TUN, "uid": self._uid, "nat": self._nat},
            **{"bridge": self._bridge, "inside": self._namespace is not None},
            "address": None if self.address is None else str(self.address),
        }
        start_over_in_children(self)
        try:
            self._connection = NURSERY.order("tap", self.name, mark, content=tap)
        except OSError as error:
            raise MonitorError(f"the tap {self.name} cannot be created: {error}") from error
        word, *failure = self._report(self._connection)
        if word != "ready":
            self._close()
            raise MonitorError(failure[0])

    def _remove(self) -> None:
        with self._removing:
            connection = self._connection
            if connection is not None:
                messages.send(connection, "remove")
                _, _, *left = self._report(connection)
                self._close()
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
        self._removing = threading.Lock()
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _interface(option: str, value: str) -> IPv4Interface:
    """An address that an interface can have, with its prefix. Raises ValueError."""
    needed = "it must be an IPv4 address with its prefix, such as 172.16.0.1/30"
    try:
        found = IPv4Interface(value)
    except ValueError:
        raise ValueError(f"{option} is {value!r}; {needed}") from None
    network = found.network
    if network.prefixlen == 32:
        raise ValueError(f"{option} is {value}; {needed}")
    if network.prefixlen < 31 and found.ip in (network[0], network[-1]):
        raise ValueError(f"{option} is {value}; that is no host's address in {network}")
    return found


def _first_free(address: IPv4Interface | None) -> IPv4Interface | None:
    if address is None:
        return None
    free = next(each for each in address.network.hosts() if each != address.ip)
    return IPv4Interface((free, address.network.prefixlen))
