"""Requests to the kernel with pyroute2: interfaces, known by their marks, and nftables rules."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from ipaddress import IPv4Interface
from typing import Any, Self

from generated_vmm.process.errors import MonitorError
from generated_vmm.process.state import identity_of, our_identity

try:
    from pyroute2 import IPRoute, NetlinkError
    from pyroute2.nftables.expressions import genex, masq
    from pyroute2.nftables.main import NFTables
except ModuleNotFoundError as missing:
    explanation = "networks of guests need: pip install 'generated-vmm[network]'"
    raise ModuleNotFoundError(explanation, name=missing.name) from None

TUN = "/dev/net/tun"
SOURCE_NAT, ACCEPT = 100, 1  # priority of a chain and verdict (linux/netfilter.h)
GONE = (errno.ENODEV, errno.ENOENT)


@dataclass(frozen=True)
class Mark:
    """The mark of a tap: a unique token, and the process that owns it."""

    token: str
    pid: int
    start_time: int
    pid_namespace: int
    has_table: int

    @classmethod
    def new(cls, *, has_table: bool) -> Self:
        """A mark for a tap of this process, and for its table of nftables if there is one."""
        pid_namespace = os.stat("/proc/self/ns/pid").st_ino
        return cls(secrets.token_hex(8), *our_identity(), pid_namespace, int(has_table))

    @classmethod
    def read(cls, written: str | None) -> Self | None:
        """The mark in a text; None if it is none."""
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
        """Whether the owner lives; also true if it is in another PID namespace."""
        if self.pid_namespace != os.stat("/proc/self/ns/pid").st_ino:
            return True
        return identity_of(self.pid) == (self.pid, self.start_time)


def open_route() -> Any:
    """A socket for requests about interfaces, closed after its block."""
    return IPRoute()


def remove(what: Mapping[str, str]) -> None:
    """Removes the tap of a name, if it has this mark, and its table: OSError, NetlinkError."""
    mark = Mark.read(what["mark"])
    with open_route() as route, contextlib.suppress(FileNotFoundError):
        link = find(route, what["name"])
        if mark == _mark_of(link):
            _remove_link(route, link["index"])
    if mark is not None:
        _remove_table(mark)


@contextlib.contextmanager
def explained(what: str, capability: str = "CAP_NET_ADMIN") -> Iterator[None]:
    """Raises `MonitorError` if the system refuses a request in this block."""
    try:
        yield
    except (OSError, NetlinkError) as error:
        if isinstance(error, MonitorError):
            raise
        code = error.errno if isinstance(error, OSError) else error.code
        refused = f"that needs {capability}, which root has"
        reasons = {errno.EPERM: refused, errno.EACCES: refused}
        reasons[errno.EBUSY] = "another process has just created one of that name"
        if getattr(error, "filename", None) == TUN:
            reasons[errno.ENOENT] = reasons[errno.ENODEV] = f"the host has no {TUN}"
        raise MonitorError(f"{what}: {reasons.get(code or 0, str(error))}") from error


def take_name(route: Any, name: str) -> None:
    """Removes the tap of a dead owner. Raises `MonitorError` if the name is taken otherwise."""
    with contextlib.suppress(FileNotFoundError):
        link = find(route, name)
        mark = _mark_of(link)
        if mark is None:
            raise MonitorError(f"the interface {name} exists, and was not created by Tap")
        if mark.is_owned:
            raise MonitorError(f"the tap {name} is in use by process {mark.pid}")
        _remove_link(route, link["index"])
        _remove_table(mark)


def leftovers() -> Iterator[tuple[str, Mark]]:
    """The names and marks of the taps in this network namespace whose owner has died."""
    with open_route() as route:
        for link in route.get_links():
            mark = _mark_of(link)
            if mark is not None and not mark.is_owned:
                yield link.get_attr("IFLA_IFNAME"), mark


def find(route: Any, name: str) -> Any:
    """The interface of a name. Raises FileNotFoundError if there is none."""
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


def masquerade(table: str, address: IPv4Interface, tap: str) -> None:
    """Adds what `nft` calls `ip saddr NETWORK oifname != TAP masquerade`, all of it or nothing."""
    network = address.network
    equal, unequal, source = 0, 1, {"base": 1, "offset": 12, "len": 4}  # in the network header
    with NFTables() as nft:
        nft.get_tables()  # raises the kernel's error; pyroute2 waits forever after a batch
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
