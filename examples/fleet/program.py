"""A program that the fleet runs, which is ended, held and started again by hand."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from examples.fleet.part import Actions, StartError

START_SECONDS: Final = 60.0
"""A busy machine takes its time to import a web framework several times at once."""
STOP_SECONDS: Final = 20.0
"""More than a worker takes to answer what it has begun."""
_LAST_WORDS: Final = 2000


class Program:
    """One process; what it prints is in the file NAME.log of its folder.

    It is no child of the terminal's group, so that Ctrl-C is for the fleet to act on. `address` is
    its unix socket, which is removed before it starts, as one that was killed leaves it behind.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        *,
        address: Path | None = None,
        is_ready: Callable[[], bool] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.folder = name, folder
        self._command, self._environment = command, environment
        self._address = address
        self._is_ready = is_ready or self._listens
        self._log = folder / f"{name.replace(' ', '-')}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._held = False

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def state(self) -> str:
        """Whether it runs, and how it ended."""
        if self._process is None:
            return "not started"
        status = self._process.poll()
        if status is None:
            return f"pid {self._process.pid}" + (", paused" if self._held else "")
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended ({status})"

    @property
    def actions(self) -> Actions:
        """What can be done with a process."""
        return {
            "start": self.start,
            "stop": self.stop,
            "restart": self.restart,
            "kill": self.kill,
            "pause": self.pause,
            "resume": self.resume,
        }

    def begin(self) -> None:
        """Starts it, unless it runs; `wait_until_ready` goes with it."""
        if self.pid is not None:
            return
        if self._address is not None:
            self._address.unlink(missing_ok=True)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - programs of this repository's choice
                self._command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Returns when it answers; raises StartError, with what it said last, if it never does."""
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self.pid is None or time.monotonic() > deadline:
                said = self._log.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip()
                self.kill()
                raise StartError(f"{self.name} did not start: {said or 'it said nothing'}")
            time.sleep(0.02)

    def start(self) -> None:
        """It answers, as before or again. Raises StartError."""
        self.begin()
        self.wait_until_ready()

    def stop(self) -> None:
        """It has ended, in order if it can."""
        self.resume()
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def restart(self) -> None:
        """It has ended in order and answers again. Raises StartError."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """It is gone in the middle of whatever it does (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._held = False

    def pause(self) -> None:
        """It takes connections and answers nothing (SIGSTOP)."""
        self.send(signal.SIGSTOP)
        self._held = self.pid is not None

    def resume(self) -> None:
        """It goes on after a pause."""
        self.send(signal.SIGCONT)
        self._held = False

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal, if it runs."""
        if self.pid is not None and self._process is not None:
            self._process.send_signal(number)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self._address)) == 0
