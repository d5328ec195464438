"""The keeper of a tap: it makes the tap with pyroute2, and removes it by its mark.

The mark is the tap's `ifalias`. While its keeper lives, it listens on an abstract socket of that
name (unix(7)), which every process in the tap's network namespace can ask, whatever its PID
namespace. Until the mark is there, the tap is bound to a descriptor, and ends with this process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute, NetlinkError
from pyroute2.nftables.expressions import genex, masq
from pyroute2.nftables.main import NFTables

from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import Descriptor, Refused, ready_of

SOURCE_NAT, ACCEPT = 100, 1  # priority of a chain and verdict (linux/netfilter.h)
FORWARDING = "/proc/sys/net/ipv4/ip_forward"
TUNSETIFF, TUNSETPERSIST, TUNSETOWNER = 0x400454CA, 0x400454CB, 0x400454CC  # linux/if_tun.h
TAP_EXCL = 0x0002 | 0x1000 | 0x4000 | 0x8000  # IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_TUN_EXCL
GONE = (errno.ENODEV, errno.ENOENT)
TUN, PREFIX = "/dev/net/tun", "generated-vmm-"
NAT = "-nat"  # the end of the mark of a tap with rules
ANSWER_SECONDS = 1.0


def keep(tap: dict[str, Any], owner: socket.socket) -> None:
    """Keeps a tap until its owner has it removed, or has ended."""
    name, failure, left = tap["name"], "", list[str]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            listener.bind(f"\0{tap['mark']}")
            listener.listen()
            take_name(name)
            _make(tap)
            messages.send(owner, "ready")
            watched = (owner.fileno(), listener.fileno())
            while ready_of(watched) == {listener.fileno()}:
                listener.accept()[0].close()
        except Refused as error:
            failure = f"the tap {name} cannot be created: {error}"
        except (OSError, NetlinkError) as error:
            failure = f"the tap {name} cannot be created: {error}; it needs CAP_NET_ADMIN and {TUN}"
    try:
        clean(name, tap["mark"])
    except (OSError, NetlinkError) as error:
        left.append(f"the tap {name} cannot be removed: {error}")
    messages.send(owner, "removed", failure, *left)


def keeper_of(mark: str) -> int | None:
    """The keeper of a tap; None if it has died."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(f"\0{mark}")
        except ConnectionRefusedError:
            return None
        keeper, uid = messages.peer_of(connection)
        # anybody can take the name of a dead keeper
        return keeper if uid in (0, os.geteuid()) else None


def _make(tap: Mapping[str, Any]) -> None:
    name, address, mark = tap["name"], tap["address"], tap["mark"]
    tun = Descriptor(os.open, TUN, os.O_RDWR)
    fcntl.ioctl(tun.number, TUNSETIFF, struct.pack("16sH22x", os.fsencode(name), TAP_EXCL))
    owner = os.geteuid() if tap["uid"] is None else tap["uid"]  # without one, it is everybody's
    fcntl.ioctl(tun.number, TUNSETOWNER, owner)
    with IPRoute() as route:
        index = find(route, name)["index"]
        route.link("set", index=index, ifalias=mark)
        if tap["bridge"] is not None:
            route.link("set", index=index, master=find(route, tap["bridge"])["index"])
        if address is not None:
            ip, length = address.split("/")
            route.addr("add", index=index, address=ip, prefixlen=int(length))
        route.link("set", index=index, state="up")
    if tap["nat"]:
        if Path(FORWARDING).read_text().strip() == "0":
            raise Refused("the host does not forward: sysctl -w net.ipv4.ip_forward=1")
        _masquerade(mark, IPv4Interface(address), name)
    fcntl.ioctl(tun.number, TUNSETPERSIST, 1)
    # A failure before closes the descriptor, and ends the tap.


def take_name(name: str) -> None:
    """Removes the tap of a dead keeper. Raises `Refused` if the name is taken otherwise."""
    with IPRoute() as route, contextlib.suppress(FileNotFoundError):
        link = find(route, name)
        mark = _mark_of(link)
        if mark is None:
            raise Refused(f"the interface {name} exists, and was not created by Tap")
        if (keeper := keeper_of(mark)) is not None:
            raise Refused(f"the tap {name} is in use, and kept by process {keeper}")
        _remove_link(route, link["index"])
        _remove_table(mark)


def clean(name: str, mark: str) -> None:
    """Removes the tap of a name, if it has this mark, and its table: OSError, NetlinkError."""
    with IPRoute() as route, contextlib.suppress(FileNotFoundError):
        link = find(route, name)
        if mark == _mark_of(link):
            _remove_link(route, link["index"])
    _remove_table(mark)


def leftovers() -> Iterator[tuple[str, str]]:
    """The names and marks of the taps in this network namespace whose keeper has died."""
    with IPRoute() as route:
        for link in route.get_links():
            mark = _mark_of(link)
            if mark is not None and keeper_of(mark) is None:
                yield link.get_attr("IFLA_IFNAME"), mark


def find(route: Any, name: str) -> Any:
    """The interface of a name. Raises FileNotFoundError if there is none."""
    try:
        return next(iter(route.link("get", ifname=name)))
    except NetlinkError as error:
        if error.code not in GONE:
            raise
        raise FileNotFoundError(f"there is no interface {name}") from error


def _mark_of(link: Any) -> str | None:
    alias = link.get_attr("IFLA_IFALIAS")
    return alias if isinstance(alias, str) and alias.startswith(PREFIX) else None


def _remove_link(route: Any, index: int) -> None:
    with _gone_is_fine():
        route.link("del", index=index)


def _masquerade(table: str, address: IPv4Interface, tap: str) -> None:
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


def _remove_table(mark: str) -> None:
    """Removes the rules of a tap, whose table has its mark as name."""
    if mark.endswith(NAT):
        with _gone_is_fine(), NFTables() as nft:
            nft.table("del", name=mark)


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code not in GONE:
            raise
