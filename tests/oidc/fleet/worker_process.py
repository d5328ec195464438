"""A worker that tests hold, kill and end; it is told everything when it starts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]
PATIENCE = 60
"""Seconds for whatever takes its time on a machine that other programs use."""


class Worker:
    """A process that serves the application."""

    def __init__(self, configuration: dict[str, Any], ahead: int, log: Path) -> None:
        self._log = log
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.oidc.fleet.worker"],
                cwd=REPOSITORY,
                env=os.environ | {"CLOCK_AHEAD": str(ahead)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(configuration))
        self._process.stdin.close()

    def wait_until_listening(self) -> None:
        self._address = f"http://127.0.0.1:{self._line()}"

    def at(self, path: str) -> str:
        return f"{self._address}{path}"

    async def until_held(self) -> None:
        """It has the provider's answer to a refresh, and has not saved what follows from it."""
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.to_thread(self._line) == "held"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def logged(self) -> str:
        """All that it has logged: what is a warning, or worse."""
        return self._log.read_text()

    def stop(self) -> None:
        """It stands still, as on a machine that is paused."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)

    def terminate(self) -> None:
        """It ends as for a rolling restart: what is under way comes to its end."""
        self._process.terminate()
        self._process.wait(PATIENCE)

    def end(self) -> None:
        assert self._process.stdout is not None
        self.go_on()
        self.terminate()
        self._process.stdout.close()
        sys.stderr.write(self.logged())  # told of a test that fails
