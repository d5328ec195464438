"""`python -m examples.console.simulated`: a simulated monitor whose guest is not idle."""

from __future__ import annotations

import sys

from examples.console.lively_devices import keep_busy
from examples.console.lively_memory import LivelyMemory
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.process import main


def enliven(monitor: SimulatedMonitor) -> None:
    """Give the guest figures that move with time."""
    monitor.guest.balloon_statistics = LivelyMemory(monitor)
    keep_busy(monitor)


if __name__ == "__main__":
    sys.exit(main(prepare=enliven))
