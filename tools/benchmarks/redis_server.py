"""A Redis server for the length of a measurement."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PROGRAM: Final = shutil.which("redis-server")
START_SECONDS: Final = 10.0


@contextmanager
def redis_server() -> Iterator[str]:
    """The URL of a new server on a unix socket that keeps nothing on disk."""
    if PROGRAM is None:
        raise RuntimeError("these figures need redis-server on the path")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "redis.sock")
        options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"]
        with subprocess.Popen([PROGRAM, *options], cwd=folder, stdout=subprocess.DEVNULL) as server:
            try:
                _wait_for(path)
                yield f"unix://{path}"
            finally:
                server.terminate()


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not path.is_socket():
        if time.monotonic() > deadline:
            raise RuntimeError("redis-server did not start")
        time.sleep(0.01)
