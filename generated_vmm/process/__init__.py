"""Monitors as processes of this host: start one, unjailed or in a jail, watch it, end it.

    with Monitor("firecracker") as monitor:
        monitor.client.boot("/vm/vmlinux", "/vm/rootfs.ext4")
        monitor.serial.read_until(b"login:")

`AsyncMonitor` and `AsyncJailedMonitor` have the same members, awaited.
"""

from generated_vmm.process.asynchronous import AsyncMonitor
from generated_vmm.process.broadcast import AsyncRingBuffer, RingBuffer
from generated_vmm.process.child import Usage
from generated_vmm.process.errors import MonitorError, MonitorExited, MonitorStartError
from generated_vmm.process.jailed import AsyncJailedMonitor, JailedMonitor, JailedOptions
from generated_vmm.process.lines import DriveRates, LogLine, Metrics, NetworkRates, Rates
from generated_vmm.process.monitor import Monitor
from generated_vmm.process.reading import async_log, async_metrics, log, metrics
from generated_vmm.process.serial import AsyncSerial, Piece, Serial
from generated_vmm.process.settings import MonitorOptions

__all__ = [
    "AsyncJailedMonitor",
    "AsyncMonitor",
    "AsyncRingBuffer",
    "AsyncSerial",
    "DriveRates",
    "JailedMonitor",
    "JailedOptions",
    "LogLine",
    "Metrics",
    "Monitor",
    "MonitorError",
    "MonitorExited",
    "MonitorOptions",
    "MonitorStartError",
    "NetworkRates",
    "Piece",
    "Rates",
    "RingBuffer",
    "Serial",
    "Usage",
    "async_log",
    "async_metrics",
    "log",
    "metrics",
]
