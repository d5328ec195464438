"""Tap devices of machines, and their addresses."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import Final

import psutil

from generated_vmm.machines import TapDevice

POOL: Final = IPv4Network("172.16.0.0/16")
"""Each tap has a network of four addresses in this range that the host does not use."""
TUN: Final = "/dev/net/tun"
FORWARDS: Final = Path("/proc/sys/net/ipv4/ip_forward")


def can_make_taps() -> bool:
    """Whether this console may create tap devices, and has the extra `network` for it."""
    is_allowed = not os.geteuid() and os.access(TUN, os.R_OK | os.W_OK)
    return is_allowed and find_spec("pyroute2") is not None


def new_tap(taken: Iterable[TapDevice]) -> tuple[TapDevice, Mapping[str, object], str]:
    """A tap device whose address neither the host nor the `taken` ones use.

    Also the members of a network interface for it, and the kernel argument with the guest's
    address. If the host forwards, the guest can reach other networks.
    """
    from generated_vmm.process.network import Tap

    found = [one for each in psutil.net_if_addrs().values() for one in each]
    used = [f"{one.address}/{one.netmask}" for one in found if one.family == socket.AF_INET]
    used += [tap.address for tap in taken if tap.address]
    networks = [IPv4Interface(one).network for one in used]
    subnets = POOL.subnets(new_prefix=30)
    free = next(one for one in subnets if not any(one.overlaps(other) for other in networks))
    nat = FORWARDS.read_text().strip() == "1"
    made = TapDevice(name=f"tap{secrets.token_hex(6)}", address=f"{free[1]}/30", nat=nat)
    device = Tap(made.name, address=made.address)
    return made, {"iface_id": "eth0", **device.interface}, device.boot_argument
