"""`python -m examples.console.simulated`: a simulated monitor whose guest is not idle."""

from __future__ import annotations

import sys
from typing import Final

from examples.console.lively_devices import keep_busy
from examples.console.lively_memory import LivelyMemory
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.process import main

BOOT_MESSAGES: Final = (
    "[  \x1b[1;32mOK\x1b[0m  ] Started \x1b[1mJournal Service\x1b[0m",
    "[  \x1b[1;32mOK\x1b[0m  ] Started \x1b[1mLogin Service\x1b[0m",
    "[ \x1b[33mWARN\x1b[0m ] This guest is simulated: it repeats what is typed",
)
"""The boot messages of a distribution, with colours."""


def enliven(monitor: SimulatedMonitor) -> None:
    """Give the guest figures that change with time."""
    monitor.guest.balloon_statistics = LivelyMemory(monitor)
    monitor.guest.boot_messages = BOOT_MESSAGES
    keep_busy(monitor)


if __name__ == "__main__":
    sys.exit(main(prepare=enliven))
