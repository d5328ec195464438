"""A Redis server of our own: on a unix socket in a temporary folder, keeping nothing on disk."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.programs import require_program

START_SECONDS = 10.0
NOTHING_ON_DISK = ("--save", "", "--appendonly", "no")


@contextmanager
def running_redis() -> Iterator[str]:
    """Yields the URL of a new, empty server, for `Redis.from_url`; ends it afterwards."""
    program = require_program("redis-server", package="redis-server")
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        path = Path(folder) / "redis.sock"
        server = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", str(path), *NOTHING_ON_DISK],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_until_listening(path, server)
            yield f"unix://{path}"
        finally:
            server.terminate()
            server.wait(START_SECONDS)


def wait_until_listening(path: Path, server: subprocess.Popen[bytes]) -> None:
    """Returns when `server` takes connections at `path`; fails the test if it never does."""
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as connection:
            if connection.connect_ex(str(path)) == 0:
                return
        time.sleep(0.01)
    pytest.fail("redis-server did not start")


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """One server for the whole run; tests keep apart by their key prefix."""
    with running_redis() as url:
        yield url
