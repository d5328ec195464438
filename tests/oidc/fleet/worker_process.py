"""A worker that tests hold, kill and end; it is told everything when it starts."""

import asyncio
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.oidc.fleet import worker

PATIENCE = 60
"""Seconds for whatever takes its time on a machine that other programs use."""

# A process that has imported everything is forked for each worker, which is ready in no time.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([worker.__name__])


class Worker:
    """A process that serves the application."""

    def __init__(self, configuration: dict[str, Any], log: Path) -> None:
        self._log = log
        log.touch()
        self._said, say = _processes.Pipe(duplex=False)
        arguments = (configuration, str(log), say)
        self._process = _processes.Process(target=worker.serve, args=arguments)
        self._process.start()
        say.close()

    def wait_until_listening(self) -> None:
        self._address = f"http://127.0.0.1:{self._word()}"

    def at(self, path: str) -> str:
        return f"{self._address}{path}"

    async def until_held(self) -> None:
        """It has the provider's answer to a refresh, and has not saved what follows from it."""
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.to_thread(self._word) == "held"

    def _word(self) -> object:
        return self._said.recv()

    def logged(self) -> str:
        """All that it has logged: what is a warning, or worse."""
        return self._log.read_text()

    def stop(self) -> None:
        """It stands still, as on a machine that is paused."""
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.join(PATIENCE)

    def terminate(self) -> None:
        """It ends as for a rolling restart: what is under way comes to its end."""
        self._process.terminate()
        self._process.join(PATIENCE)

    def end(self) -> None:
        self.go_on()
        self.terminate()
        self._process.close()
        self._said.close()
        sys.stderr.write(self.logged())  # told of a test that fails

    def _send(self, what: signal.Signals) -> None:
        if self._process.is_alive():
            assert self._process.pid is not None
            os.kill(self._process.pid, what)
