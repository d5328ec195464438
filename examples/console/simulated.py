"""`python -m examples.console.simulated`: a simulated monitor whose guest is not idle."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from examples.console.lively_devices import keep_busy
from examples.console.lively_memory import LivelyMemory
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.process import main

AGENT_VARIABLE: Final = "CONSOLE_SIMULATED_AGENT"
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
    if os.environ.get(AGENT_VARIABLE):
        # Its curl reaches port 8080 of its host, as by a forwarder in a real guest.
        os.environ["CURL_HOME"] = folder = os.getcwd()
        Path(".curlrc").write_text(f'unix-socket = "{folder}/vsock.socket_8080"\nnoproxy = "*"\n')
        monitor.guest.run_agent()


if __name__ == "__main__":
    sys.exit(main(prepare=enliven))
