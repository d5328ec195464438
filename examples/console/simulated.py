"""`python -m examples.console.simulated`: a simulated monitor whose guest is not idle."""

from __future__ import annotations

import sys
import time
from random import uniform
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
SPEEDS: Final = {
    ("/drives", "block"): {"read_bytes": 90_000, "write_bytes": 40_000},
    ("/network-interfaces", "net"): {"rx_bytes_count": 24_000, "tx_bytes_count": 9_000},
}
"""Average bytes per second of each kind of device."""
MEMORY: Final = 128 << 20
"""Bytes that the guest says it has."""


def enliven(monitor: SimulatedMonitor) -> None:
    """Give the guest activity while it runs."""
    monitor.guest.boot_messages = BOOT_MESSAGES
    Thread(target=_work, args=(monitor,), name="guest", daemon=True).start()


def _work(monitor: SimulatedMonitor) -> None:
    while True:
        free = int(MEMORY * uniform(0.4, 0.6))  # noqa: S311 - for the eye
        monitor.guest.balloon_statistics = {"total_memory": MEMORY, "available_memory": free}
        time.sleep(BEAT_SECONDS)
        if monitor.state == "Running":
            _transfer(monitor)


def _transfer(monitor: SimulatedMonitor) -> None:
    machine = monitor.machine
    for (path, kind), counters in SPEEDS.items():
        for device in tuple(machine.devices(path)):
            for counter, speed in counters.items():
                count = int(speed * BEAT_SECONDS * uniform(0.5, 1.5))  # noqa: S311
                machine.outlets.metrics.count(f"{kind}_{device}", counter, count)


if __name__ == "__main__":
    sys.exit(main(prepare=enliven))
