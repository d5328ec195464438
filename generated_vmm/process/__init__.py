"""Monitors as processes of this host: start one, bare or in a jail, watch it, end it.

    with Monitor("firecracker") as monitor:
        monitor.client.boot("/vm/vmlinux", "/vm/rootfs.ext4")
        monitor.serial.read_until(b"login:")

`AsyncMonitor` and `AsyncJailedMonitor` have the same members, awaited.
"""

from generated_vmm.process.asynchronous import AsyncMonitor
from generated_vmm.process.errors import MonitorError, MonitorExited, MonitorStartError
from generated_vmm.process.growing import AsyncRecent, Recent
from generated_vmm.process.jailed import AsyncJailedMonitor, JailedMonitor, JailedOptions
from generated_vmm.process.log_line import LogLine
from generated_vmm.process.metrics_line import DriveRates, Metrics, NetworkRates, Rates
from generated_vmm.process.monitor import Monitor
from generated_vmm.process.reading import async_log, async_metrics, log, metrics
from generated_vmm.process.serial import AsyncSerial, Piece, Serial
from generated_vmm.process.settings import MonitorOptions
from generated_vmm.process.usage import Usage

__all__ = [
    "AsyncJailedMonitor",
    "AsyncMonitor",
    "AsyncRecent",
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
    "Recent",
    "Serial",
    "Usage",
    "async_log",
    "async_metrics",
    "log",
    "metrics",
]
