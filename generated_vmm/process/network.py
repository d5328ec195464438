"""Networks of guests: taps and network namespaces that go with the process that made them.

Each tap carries a mark, its `ifalias`, and is removed by that mark, never by its name alone. It is
bound to a descriptor, and so to this process, until it is marked and the reaper knows the mark.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any, NotRequired, Self, TypedDict
from weakref import WeakSet

from generated_vmm.process import reaper
from generated_vmm.process.asynchronous import async_finished, until
from generated_vmm.process.broadcast import Work
from generated_vmm.process.child import Descriptor
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.monitor import finished
from generated_vmm.process.reaper_client import REAPER
from generated_vmm.process.state import identity_of, our_identity

try:
    from pyroute2 import IPRoute, NetlinkError
    from pyroute2.nftables.expressions import genex, masq
    from pyroute2.nftables.main import NFTables
except ModuleNotFoundError as missing:
    explanation = "networks of guests need: pip install 'fastapi-oidc-vmm[network]'"
    raise ModuleNotFoundError(explanation, name=missing.name) from None

LONGEST_NAME = 15  # bytes: IFNAMSIZ without the end
NAME = re.compile(r"(?!\.{1,2}$)[^\s/:%]+")  # dev_valid_name of the kernel; % makes a number
CLONE_NEWNET = 0x40000000  # unshare(2)
TUN, FORWARDING = "/dev/net/tun", "/proc/sys/net/ipv4/ip_forward"
TUNSETIFF, TUNSETPERSIST, TUNSETOWNER = 0x400454CA, 0x400454CB, 0x400454CC  # linux/if_tun.h
TAP_EXCL = 0x0002 | 0x1000 | 0x4000 | 0x8000  # IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_TUN_EXCL
SOURCE_NAT, ACCEPT = 100, 1  # priority of a chain and verdict (linux/netfilter.h)
GONE = (errno.ENODEV, errno.ENOENT)
LIBC = ctypes.CDLL(None, use_errno=True)


class InterfaceFields(TypedDict):
    """The arguments of `network_interface(...).set` for a tap."""

    host_dev_name: str
    guest_mac: NotRequired[str]


@dataclass(frozen=True)
class Mark:
    """What is written on a tap: a token that no other has, and the process that owns it."""

    token: str
    pid: int
    start_time: int
    pid_namespace: int
    has_table: int

    @classmethod
    def new(cls, *, has_table: bool) -> Self:
        """A mark for a tap of this process, and perhaps for a table of nftables."""
        pid_namespace = os.stat("/proc/self/ns/pid").st_ino
        return cls(secrets.token_hex(8), *our_identity(), pid_namespace, int(has_table))

    @classmethod
    def read(cls, written: str | None) -> Self | None:
        """The mark that was written so; None when it is none."""
        kind, *fields = (written or "").split(":")
        with contextlib.suppress(TypeError, ValueError):
            if kind == "generated-vmm":
                token, *numbers = fields
                return cls(token, *map(int, numbers))
        return None

    def __str__(self) -> str:
        return ":".join(map(str, ("generated-vmm", *astuple(self))))

    @property
    def table(self) -> str:
        """The table of nftables for the tap."""
        return f"generated-vmm-{self.token}"

    @property
    def is_owned(self) -> bool:
        """Whether the owner lives, or is in another PID namespace, where that is not known."""
        if self.pid_namespace != os.stat("/proc/self/ns/pid").st_ino:
            return True
        return identity_of(self.pid) == (self.pid, self.start_time)


class Owned(ABC):
    """Something that is made at the start of a block and removed at its end, in a thread."""

    @property
    @abstractmethod
    def _is_there(self) -> bool:
        """Whether it was made and not removed."""

    @abstractmethod
    def _make(self) -> None:
        """Makes it, or leaves nothing."""

    @abstractmethod
    def _remove(self) -> None:
        """Removes it if it is there. Safe to call twice at once."""

    def _making(self) -> Work[None]:
        if self._is_there:
            raise MonitorError("a network is made once at a time")
        return Work(lambda _: self._make(), "monitor-network")

    def _removing(self) -> Work[None]:
        work = Work(lambda _: self._remove(), "monitor-network")
        work.start()
        return work

    def __enter__(self) -> Self:
        work = self._making()
        try:
            finished(work)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        work = self._removing()
        try:
            work.wait_for(work.is_done)
        finally:  # what a signal handler raises does not shorten it
            work.wait_for(work.is_done)
        work.result()

    async def __aenter__(self) -> Self:
        work = self._making()
        try:
            await async_finished(work)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        work = self._removing()
        await until(work, work.is_done)
        work.result()


class NetworkNamespace(Owned):
    """A network namespace without a name, for the `netns` of a `JailedMonitor`.

    It is a descriptor of this process: the kernel removes it, with the taps in it, when the
    descriptor is closed and the last process in it has ended. Needs CAP_SYS_ADMIN.
    """

    _descriptor: Descriptor | None = None

    @property
    def _is_there(self) -> bool:
        return self._descriptor is not None

    @property
    def path(self) -> str:
        """The path that leads to it while the block lasts. `MonitorError` outside of the block."""
        return f"/proc/{os.getpid()}/fd/{self._held.number}"

    @property
    def _held(self) -> Descriptor:
        if self._descriptor is None:
            raise MonitorError("the network namespace is not there outside of its block")
        return self._descriptor

    def _make(self) -> None:
        with explained("no network namespace can be made", "CAP_SYS_ADMIN"):
            _switch("unshare", CLONE_NEWNET)  # this thread alone, which ends now
            self._descriptor = Descriptor(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        NAMESPACES.add(self)

    def _remove(self) -> None:
        self._descriptor = None

    def join(self) -> None:
        """Puts the calling thread into it, for as long as the thread lives. OSError."""
        _switch("setns", self._held.number, CLONE_NEWNET)


class Tap(Owned):
    """A tap device of the host, for the network interface of one guest.

        with Tap(address="172.16.0.1/30", nat=True) as tap, Monitor() as monitor:
            monitor.client.network_interface("eth0").set(**tap.interface)

    `address` is the host's on it, with its prefix; or `bridge` names the bridge of the host that
    it is a port of. `nat` hides the network behind the host's addresses; the host must forward.
    `guest` (with its prefix) and `gateway` are the guest's side, by default the first free address
    of the network and the host's. `uid` is the user that may open it, as that of a
    `JailedMonitor`. `namespace` is the `NetworkNamespace` that it is in. The default name is free.
    Needs CAP_NET_ADMIN. ValueError for options of which no tap can be made; `MonitorError` when
    the host makes none, with nothing left of the attempt.
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
            raise ValueError(f"address is {address}; its network has no place for a guest")
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
    def interface(self) -> InterfaceFields:
        """What `network_interface(...).set` gets: the tap and a MAC made of the guest's address."""
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
            raise ValueError("the guest's address is not known: give address or guest")
        return f"ip={self.guest.ip}::{self.gateway or ''}:{self.guest.netmask}::eth0:off"

    @property
    def _is_there(self) -> bool:
        return self._mark is not None and self._mark.pid == os.getpid()

    def _make(self) -> None:
        if self._namespace is not None:
            self._namespace.join()
        mark = self._mark = Mark.new(has_table=self._nat)
        try:
            with explained(f"the tap {self.name} cannot be made"), IPRoute() as route:
                _take_name(route, self.name)
                if self._namespace is None:  # else the kernel removes it
                    what = {"name": self.name, "mark": str(mark)}
                    REAPER.entrust(mark.token, [(reaper.Network(what), None)])
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
        index = _find(route, self.name)["index"]
        route.link("set", index=index, ifalias=str(mark))
        if self._bridge is not None:
            route.link("set", index=index, master=_find(route, self._bridge)["index"])
        if self.address is not None:
            length = self.address.network.prefixlen
            route.addr("add", index=index, address=str(self.address.ip), prefixlen=length)
        route.link("set", index=index, state="up")
        if self._nat and self.address is not None:
            if self._namespace is not None:  # it is ours; of the host its owner decides
                Path(FORWARDING).write_text("1")
            elif Path(FORWARDING).read_text().strip() == "0":
                raise MonitorError("the host does not forward: sysctl -w net.ipv4.ip_forward=1")
            _masquerade(mark.table, self.address, self.name)
        fcntl.ioctl(tun.number, TUNSETPERSIST, 1)

    def _remove(self) -> None:
        mark, namespace = self._mark, self._namespace
        if mark is None or not self._is_there:  # or it is of the process that this one forked from
            return
        if namespace is None or namespace._is_there:
            with explained(f"the tap {self.name} cannot be removed"):
                if namespace is not None:
                    namespace.join()
                remove({"name": self.name, "mark": str(mark)})
        REAPER.release(mark.token)
        self._mark = None


def remove(what: Mapping[str, str]) -> None:
    """Removes the tap of a name if it has this mark, and its table. OSError, NetlinkError."""
    mark = Mark.read(what["mark"])
    with IPRoute() as route, contextlib.suppress(FileNotFoundError):
        link = _find(route, what["name"])
        if mark == _mark_of(link):
            _remove_link(route, link["index"])
    if mark is not None:
        _remove_table(mark)


@contextlib.contextmanager
def explained(what: str, capability: str = "CAP_NET_ADMIN") -> Iterator[None]:
    """Raises `MonitorError` for what the system refuses."""
    try:
        yield
    except (OSError, NetlinkError) as error:
        if isinstance(error, MonitorError):
            raise
        code = error.errno if isinstance(error, OSError) else error.code
        refused = f"that needs {capability}, as root has it"
        reasons = {errno.EPERM: refused, errno.EACCES: refused}
        reasons[errno.EBUSY] = "somebody else has just made one of that name"
        if getattr(error, "filename", None) == TUN:
            reasons[errno.ENOENT] = reasons[errno.ENODEV] = f"the host has no {TUN}"
        raise MonitorError(f"{what}: {reasons.get(code or 0, str(error))}") from error


def _take_name(route: Any, name: str) -> None:
    """Removes the tap of a dead owner. `MonitorError` when the name is taken otherwise."""
    with contextlib.suppress(FileNotFoundError):
        link = _find(route, name)
        mark = _mark_of(link)
        if mark is None:
            raise MonitorError(f"the interface {name} exists, and is nobody's who uses Tap")
        if mark.is_owned:
            raise MonitorError(f"the tap {name} is in use by process {mark.pid}")
        _remove_link(route, link["index"])
        _remove_table(mark)


def _find(route: Any, name: str) -> Any:
    """The interface of a name. FileNotFoundError when there is none."""
    try:
        return next(iter(route.link("get", ifname=name)))
    except NetlinkError as error:
        if error.code not in GONE:
            raise
        raise FileNotFoundError(f"there is no interface {name}") from error


def _mark_of(link: Any) -> Mark | None:
    return Mark.read(link.get_attr("IFLA_IFALIAS"))


def _remove_link(route: Any, index: int) -> None:
    with _gone_is_fine():
        route.link("del", index=index)


def _masquerade(table: str, address: IPv4Interface, tap: str) -> None:
    """Adds what `nft` calls `ip saddr NETWORK oifname != TAP masquerade`, all of it or nothing."""
    network = address.network
    equal, unequal, source = 0, 1, {"base": 1, "offset": 12, "len": 4}  # in the network header
    with NFTables() as nft:
        nft.get_tables()  # raises what the kernel refuses; pyroute2 waits for ever after a batch
        nft.begin()
        nft.table("add", name=table)
        nat = {"type": "nat", "hook": "postrouting", "priority": SOURCE_NAT, "policy": ACCEPT}
        nft.chain("add", table=table, name="postrouting", **nat)
        mask = {"mask": _data(network.netmask.packed), "xor": _data(bytes(4))}
        rule = [
            genex("payload", {"dreg": 1, **source}),
            genex("bitwise", {"sreg": 1, "dreg": 1, "len": 4, **mask}),
            genex("cmp", {"sreg": 1, "op": equal, "data": _data(network.network_address.packed)}),
            genex("meta", {"dreg": 1, "key": 7}),  # NFT_META_OIFNAME
            genex("cmp", {"sreg": 1, "op": unequal, "data": _data(tap.encode().ljust(16, b"\0"))}),
        ]
        nft.rule("add", table=table, chain="postrouting", expressions=[rule, masq()])
        nft.commit()


def _data(value: bytes) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VALUE", value)]}


def _remove_table(mark: Mark) -> None:
    if mark.has_table:
        with _gone_is_fine(), NFTables() as nft:
            nft.table("del", name=mark.table)


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code not in GONE:
            raise


def _switch(call: str, *given: int) -> None:
    """Calls unshare(2) or setns(2) for this thread. OSError."""
    if getattr(LIBC, call)(*given):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _first_free(address: IPv4Interface | None) -> IPv4Interface | None:
    if address is None:
        return None
    free = next(each for each in address.network.hosts() if each != address.ip)
    return IPv4Interface((free, address.network.prefixlen))


NAMESPACES: WeakSet[NetworkNamespace] = WeakSet()


def _abandon_namespaces() -> None:
    for namespace in list(NAMESPACES):
        namespace._remove()


os.register_at_fork(after_in_child=_abandon_namespaces)
