"""Tap devices that the console creates for its machines, and that end with it."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable
from importlib.util import find_spec
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
from pydantic import BaseModel

if TYPE_CHECKING:
    from generated_vmm.process.network import Tap

POOL: Final = IPv4Network("172.16.0.0/16")
"""Each tap has a network of four addresses in this range that the host does not use."""
TUN: Final = "/dev/net/tun"
FORWARDS: Final = Path("/proc/sys/net/ipv4/ip_forward")


class MadeTap(BaseModel):
    """A tap device that the console creates; `address` is the host's on it, with its prefix."""

    name: str
    address: str


def can_make_taps() -> bool:
    """Whether this console may create tap devices, and has the extra `network` for it."""
    is_allowed = not os.geteuid() and os.access(TUN, os.R_OK | os.W_OK)
    return is_allowed and find_spec("pyroute2") is not None


def new_tap(taken: Iterable[MadeTap]) -> MadeTap:
    """A name and an address that neither the host nor the `taken` taps use."""
    found = [one for each in psutil.net_if_addrs().values() for one in each]
    used = [f"{one.address}/{one.netmask}" for one in found if one.family == socket.AF_INET]
    networks = [IPv4Interface(one).network for one in (*used, *(tap.address for tap in taken))]
    subnets = POOL.subnets(new_prefix=30)
    free = next(one for one in subnets if not any(one.overlaps(other) for other in networks))
    return MadeTap(name=f"tap{secrets.token_hex(6)}", address=f"{free[1]}/30")


def tap_of(made: MadeTap, uid: int) -> Tap:
    """The device, not yet created; if the host forwards, its guest can reach other networks."""
    from generated_vmm.process.network import Tap

    nat = FORWARDS.read_text().strip() == "1"
    return Tap(made.name, address=made.address, nat=nat, uid=uid or None)
