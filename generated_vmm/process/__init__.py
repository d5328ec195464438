"""Monitors as processes of this host: start them, unjailed or in a jail, watch them, end them.

    with Monitor("firecracker") as monitor:
        monitor.client.boot("/vm/vmlinux", "/vm/rootfs.ext4")
        monitor.serial.read_until(b"login:")

`AsyncMonitor` and `AsyncJailedMonitor` have the same members, awaited.
"""

from generated_vmm.process._async.jailed import AsyncJailedMonitor
from generated_vmm.process._async.monitor import AsyncMonitor
from generated_vmm.process._async.streams import AsyncRingBuffer, AsyncSerial
from generated_vmm.process._sync.jailed import JailedMonitor
from generated_vmm.process._sync.monitor import Monitor
from generated_vmm.process._sync.streams import RingBuffer, Serial
from generated_vmm.process.errors import MonitorError, MonitorExited, MonitorStartError
from generated_vmm.process.outlets import Metrics, Piece
from generated_vmm.process.place import Usage
from generated_vmm.process.settings import JailedOptions, MonitorOptions

__all__ = [
    "AsyncJailedMonitor",
    "AsyncMonitor",
    "AsyncRingBuffer",
    "AsyncSerial",
    "JailedMonitor",
    "JailedOptions",
    "Metrics",
    "Monitor",
    "MonitorError",
    "MonitorExited",
    "MonitorOptions",
    "MonitorStartError",
    "Piece",
    "RingBuffer",
    "Serial",
    "Usage",
]
