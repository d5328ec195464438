"""A simulated guest with some activity of processor, drives and interfaces."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from threading import Thread
from typing import Final

from generated_vmm.testing import SimulatedMonitor

BEAT_SECONDS: Final = 0.5
BUSY_SHARE: Final = 0.03
"""The average share of one processor that the guest uses."""
_SPEEDS: Final = {
    "block": {"read_bytes": (90_000, 5), "write_bytes": (40_000, 9)},
    "net": {"rx_bytes_count": (24_000, 7), "tx_bytes_count": (9_000, 13)},
}
"""Average bytes per second, and the slowness of their waves."""


def keep_busy(monitor: SimulatedMonitor) -> None:
    """Give the guest activity while it runs, in waves of some seconds."""
    Thread(target=_work, args=(monitor,), name="guest", daemon=True).start()


def _work(monitor: SimulatedMonitor) -> None:
    while True:
        time.sleep(BEAT_SECONDS)
        if monitor.state == "Running":
            _transfer(monitor)
            _compute(BEAT_SECONDS * BUSY_SHARE * _wave(11))


def _transfer(monitor: SimulatedMonitor) -> None:
    metrics = monitor.machine.outlets.metrics
    for kind, device in _devices(monitor):
        for counter, (speed, period) in _SPEEDS[kind].items():
            count = int(speed * BEAT_SECONDS * _wave(period))
            metrics.count(f"{kind}_{device}", counter, count)


def _devices(monitor: SimulatedMonitor) -> Iterator[tuple[str, str]]:
    machine = monitor.machine
    yield from (("block", name) for name in tuple(machine.devices("/drives")))
    yield from (("net", name) for name in tuple(machine.devices("/network-interfaces")))


def _compute(seconds: float) -> None:
    """Use this share of a processor's time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def _wave(period: float) -> float:
    """A figure about 1 that moves with time, always more than 0."""
    now = time.monotonic()
    return 1 + 0.6 * math.sin(now / period) + 0.3 * math.sin(3.3 * now / period)
