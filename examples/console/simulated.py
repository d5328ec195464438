"""`python -m examples.console.simulated`: a simulated monitor whose guest is not idle."""

from __future__ import annotations

import math
import sys
import time
from threading import Thread
from typing import Final

from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.process import main

BOOT_MESSAGES: Final = (
    "[  \x1b[1;32mOK\x1b[0m  ] Started \x1b[1mJournal Service\x1b[0m",
    "[  \x1b[1;32mOK\x1b[0m  ] Started \x1b[1mLogin Service\x1b[0m",
    "[ \x1b[33mWARN\x1b[0m ] This guest is simulated: it repeats what is typed",
)
"""The boot messages of a distribution, with colours."""
BEAT_SECONDS: Final = 0.5
BUSY_SHARE: Final = 0.03
"""The average share of one processor that the guest uses."""
SPEEDS: Final = {
    ("/drives", "block"): {"read_bytes": (90_000, 5), "write_bytes": (40_000, 9)},
    ("/network-interfaces", "net"): {"rx_bytes_count": (24_000, 7), "tx_bytes_count": (9_000, 13)},
}
"""Average bytes per second of each kind of device, and the slowness of their waves."""
MEMORY: Final = 128 << 20
"""Bytes that the guest says it has; 0.6 of them are free on average."""


def enliven(monitor: SimulatedMonitor) -> None:
    """Give the guest activity while it runs, in waves of some seconds."""
    monitor.guest.boot_messages = BOOT_MESSAGES
    Thread(target=_work, args=(monitor,), name="guest", daemon=True).start()


def _work(monitor: SimulatedMonitor) -> None:
    while True:
        free = int(MEMORY * 0.6 * _wave(11))
        monitor.guest.balloon_statistics = {"total_memory": MEMORY, "available_memory": free}
        time.sleep(BEAT_SECONDS)
        if monitor.state == "Running":
            _transfer(monitor)
            _compute(BEAT_SECONDS * BUSY_SHARE * _wave(11))


def _transfer(monitor: SimulatedMonitor) -> None:
    machine = monitor.machine
    for (path, kind), counters in SPEEDS.items():
        for device in tuple(machine.devices(path)):
            for counter, (speed, period) in counters.items():
                count = int(speed * BEAT_SECONDS * _wave(period))
                machine.outlets.metrics.count(f"{kind}_{device}", counter, count)


def _compute(seconds: float) -> None:
    """Use this share of a processor's time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def _wave(period: float) -> float:
    """A figure about 1 that moves with time, from 0.5 to 1.5."""
    now = time.monotonic()
    return 1 + 0.35 * math.sin(now / period) + 0.15 * math.sin(3.3 * now / period)


if __name__ == "__main__":
    sys.exit(main(prepare=enliven))
