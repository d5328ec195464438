"""`python -m tests.fork_server FD`: has imported everything and becomes the programs of tests.

A request is one message on the socket: JSON with the module, its arguments, the folder and the
environment, and with it the three standard streams. The answer is the process's id.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import socket
import sys
import time
from dataclasses import dataclass
from typing import Final

LONGEST: Final = 1 << 18
PRELOADED: Final = (
    "asyncio",
    "examples.console.host",
    "examples.console.simulated",
    "examples.fleet.application",
    "fastapi_oidc.testing",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)


@dataclass(frozen=True, slots=True)
class Command:
    """`python -m module arguments`, in a folder and an environment."""

    module: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    new_session: bool
    is_unbuffered: bool

    def become(self) -> None:
        """Run it, as the interpreter would."""
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        paths = self.environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [os.getcwd(), *filter(None, paths), *sys.path[1:]]
        sys.argv = [self.module, *self.arguments]
        if self.is_unbuffered:
            sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
        runpy.run_module(self.module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Answer until the other end is closed; return in each process that is forked, as a command."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        command = _next_command(requests)
    if command is not None:
        command.become()


def _next_command(requests: socket.socket) -> Command | None:
    while True:
        message, streams, _, _ = socket.recv_fds(requests, LONGEST, 3)
        if not message:
            return None
        command = Command(**json.loads(message))
        pid = _fork_orphan(streams, command)
        if pid is None:
            return command
        for stream in streams:
            os.close(stream)
        requests.send(str(pid).encode())


def _fork_orphan(streams: list[int], command: Command) -> int | None:
    """The id of a process that is no child of this one; None in that process.

    The nearest subreaper among its ancestors becomes its parent, which is the test's process.
    """
    reading, writing = os.pipe()
    between = os.fork()
    if between:
        os.close(writing)
        os.waitpid(between, 0)
        with open(reading, "rb") as pipe:
            return int(pipe.read())
    between = os.getpid()
    if os.fork():
        os._exit(0)
    os.close(reading)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if command.new_session:
        os.setsid()
    while os.getppid() == between:
        time.sleep(0.0005)
    os.write(writing, str(os.getpid()).encode())
    os.close(writing)
    return None


if __name__ == "__main__":
    main()
