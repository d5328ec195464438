"""A program that the fleet runs, which is ended, held and started again by hand."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from examples.fleet.part import Actions, StartError

START_SECONDS: Final = 60.0
"""A busy machine takes its time to import a web framework several times at once."""
STOP_SECONDS: Final = 20.0
"""More than a worker takes to answer what it has begun."""
SYSTEM_FOLDERS: Final = ("/usr/sbin", "/usr/local/sbin", "/sbin")
"""Where servers may be, and what the path of ordinary users lacks."""
_LAST_WORDS: Final = 2000
_LOOKED_EACH: Final = 0.02


def path_of(name: str) -> str | None:
    """The path of the program `name`, also where the system keeps its servers."""
    folders = (os.environ.get("PATH", ""), *SYSTEM_FOLDERS)
    return shutil.which(name, path=os.pathsep.join(folders))


class Program:
    """One process; what it prints is in the file NAME.log of its folder.

    It leads a group of its own, so that Ctrl-C is for the fleet to act on, and what it started ends
    with it. `address` is its unix socket, which is removed before it starts, as one that was killed
    leaves it behind.
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
        return self._process.pid if self._process and self._status() is None else None

    @property
    def state(self) -> str:
        """Whether it runs, and how it ended."""
        if self._process is None:
            return "not started"
        status = self._status()
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
            time.sleep(_LOOKED_EACH)

    def start(self) -> None:
        """It answers, as before or again. Raises StartError."""
        self.begin()
        self.wait_until_ready()

    def stop(self) -> None:
        """It has ended, in order if it can."""
        self.resume()
        self.send(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while self.pid is not None and time.monotonic() < deadline:
            time.sleep(_LOOKED_EACH)
        self.kill()

    def restart(self) -> None:
        """It has ended in order and answers again. Raises StartError."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """It is gone in the middle of whatever it does (SIGKILL)."""
        if self.pid is not None and self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._held = False

    def pause(self) -> None:
        """It takes connections and answers nothing (SIGSTOP)."""
        self._send_all(signal.SIGSTOP)
        self._held = self.pid is not None

    def resume(self) -> None:
        """It goes on after a pause."""
        self._send_all(signal.SIGCONT)
        self._held = False

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal, if it runs."""
        if self.pid is not None and self._process is not None:
            self._process.send_signal(number)

    def _send_all(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is not None:
            os.killpg(pid, number)

    def _status(self) -> int | None:
        """How it ended, None while it runs; one that was killed from outside leaves nothing."""
        process = self._process
        if process is None:
            return None
        if process.returncode is not None:
            return process.returncode
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            # The number of its group is nobody else's until it has been waited for.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return process.poll()

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self._address)) == 0
