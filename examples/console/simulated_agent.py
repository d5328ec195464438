"""`python -m examples.console.simulated_agent`: a simulated monitor whose guest has the agent.

Nothing is isolated: the guest's programs are processes of this host, with the console's user.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from examples.console.simulated import enliven
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.process import main

CURLRC: Final = """\
unix-socket = "{folder}/vsock.socket_8080"
noproxy = "*"
fail-with-body
write-out = "\\n"
"""
"""Its curl reaches port 8080 of its host, as by a forwarder in a real guest, and tells refusals."""


def enliven_with_agent(monitor: SimulatedMonitor) -> None:
    """Give the guest figures that change, and the agent, whose curl reaches the guest's access."""
    enliven(monitor)
    os.environ["CURL_HOME"] = folder = os.getcwd()
    Path(".curlrc").write_text(CURLRC.format(folder=folder))
    monitor.guest.run_agent()


if __name__ == "__main__":
    sys.exit(main(prepare=enliven_with_agent))
