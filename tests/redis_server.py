"""A Redis server of our own: on a unix socket in a temporary folder, keeping nothing on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.fleet.program import Program
from tests.programs import require_program

NOTHING_ON_DISK = ("--save", "", "--appendonly", "no")


@contextmanager
def running_redis() -> Iterator[str]:
    """Yields the URL of a new, empty server, for `Redis.from_url`; ends it afterwards."""
    program = require_program("redis-server", package="redis-server")
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        path = Path(folder) / "redis.sock"
        command = [program, "--port", "0", "--unixsocket", str(path), *NOTHING_ON_DISK]
        server = Program("redis", command, Path(folder), address=path)
        server.start()
        try:
            yield f"unix://{path}"
        finally:
            server.stop()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """One server for the whole run; tests keep apart by their key prefix."""
    with running_redis() as url:
        yield url
