"""A simulated monitor whose guest runs the real agent, with its files in the machine's folder.

A machine that is loaded from a snapshot begins as its origin was: a user's program stands still.
"""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from generated_vmm.guest import agent
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.process import main
from tests.vmm.guest import isolated

SOCKET = "agent.socket"


def prepare(monitor: SimulatedMonitor) -> None:
    """Starts the agent, which ends with this process."""
    Path(SOCKET).unlink(missing_ok=True)
    held = ["held"] if Path("memory").exists() else []
    process = subprocess.Popen(
        [sys.executable, isolated.__file__, SOCKET, os.getcwd(), *held],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    threading.Thread(target=process.wait, daemon=True).start()
    monitor.guest.boot_seconds = 0
    monitor.guest.listen(1024, _serve)


def _serve(connection: socket.socket) -> None:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(SOCKET)
        agent.join(link, connection)


if __name__ == "__main__":
    sys.exit(main(prepare=prepare))
