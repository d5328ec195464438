"""The real agent of a guest as a process of this host: nothing is isolated."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from generated_vmm.guest import agent

logger = logging.getLogger(__name__)


class HostAgent:
    """Starts the agent; it ends with `stop`, and with this process."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="guest-agent-")
        self.socket_path = str(Path(self._folder.name, "agent.socket"))
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-S", agent.__file__, self.socket_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        logger.warning("The guest's programs and files are those of this host: no isolation")
        assert self._process.stdout
        self._process.stdout.readline()  # once it listens, or has failed

    def serve(self, connection: socket.socket) -> None:
        """Joins a connection of the machine's socket to the agent."""
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(self.socket_path)
            agent.join(link, connection)

    def stop(self) -> None:
        """Ends the agent and its programs."""
        with self._process, contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        self._folder.cleanup()
