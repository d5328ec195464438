"""A program of the fleet, which can be stopped, paused and started."""

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
from typing import ClassVar, Final

from examples.fleet.part import Actions, StartError

START_SECONDS: Final = 60.0
"""A busy machine needs time to import a web framework in several processes."""
STOP_SECONDS: Final = 20.0
"""More than a worker needs to finish its requests."""
SYSTEM_FOLDERS: Final = ("/usr/sbin", "/usr/local/sbin", "/sbin")
"""Folders of servers that are not on the PATH of ordinary users."""
_LAST_WORDS: Final = 2000
_LOOKED_EACH: Final = 0.02


def path_of(name: str) -> str | None:
    """The path of the program `name`, also in the system's folders of servers."""
    folders = (os.environ.get("PATH", ""), *SYSTEM_FOLDERS)
    return shutil.which(name, path=os.pathsep.join(folders))


class Program:
    """One process; its output goes to the file NAME.log of its folder.

    It leads a group of its own: only the fleet gets Ctrl-C, and the processes that it started end
    with it. `address` is its unix socket, which is removed before the start, because a killed
    process leaves it behind.
    """

    popen: ClassVar[type[subprocess.Popen[bytes]]] = subprocess.Popen
    """What starts the process."""

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
        """Its state: whether it runs, or how it ended."""
        if self._process is None:
            return "not started"
        status = self._status()
        if status is None:
            return f"pid {self._process.pid}" + (", paused" if self._held else "")
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended ({status})"

    @property
    def actions(self) -> Actions:
        """The actions of a process."""
        return {
            "start": self.start,
            "stop": self.stop,
            "restart": self.restart,
            "kill": self.kill,
            "pause": self.pause,
            "resume": self.resume,
        }

    def begin(self) -> None:
        """Starts it, unless it runs; call `wait_until_ready` afterwards."""
        if self.pid is not None:
            return
        if self._address is not None:
            self._address.unlink(missing_ok=True)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = self.popen(
                self._command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Returns when it responds; else raises StartError with its last output."""
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self.pid is None or time.monotonic() > deadline:
                said = self._log.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip()
                self.kill()
                raise StartError(f"{self.name} did not start: {said or 'it printed nothing'}")
            time.sleep(_LOOKED_EACH)

    def start(self) -> None:
        """Starts it if needed, and waits until it responds. Raises StartError."""
        self.begin()
        self.wait_until_ready()

    def stop(self) -> None:
        """Stops it, in order if possible."""
        self.resume()
        self.send(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while self.pid is not None and time.monotonic() < deadline:
            time.sleep(_LOOKED_EACH)
        self.kill()

    def restart(self) -> None:
        """Stops it in order and starts it. Raises StartError."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kills it (SIGKILL)."""
        if self.pid is not None and self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._held = False

    def pause(self) -> None:
        """Pauses it: it accepts connections but does not respond (SIGSTOP)."""
        self._send_all(signal.SIGSTOP)
        self._held = self.pid is not None

    def resume(self) -> None:
        """Continues it after a pause."""
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
        """Its exit status, None while it runs; also ends the group of one that was killed."""
        process = self._process
        if process is None:
            return None
        if process.returncode is not None:
            return process.returncode
        with suppress(ProcessLookupError, ChildProcessError):  # another thread has waited for it
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                # No other process gets the number of its group until it has been waited for.
                os.killpg(process.pid, signal.SIGKILL)
        return process.poll()

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self._address)) == 0
