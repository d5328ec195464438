"""`python -m MODULE` as a child of the test, forked from a process that has imported everything."""

from __future__ import annotations

import atexit
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

from examples.fleet.program import Program
from tests import fork_server

T = TypeVar("T", str, bytes)
REPOSITORY: Final = Path(__file__).parents[1]
PR_SET_CHILD_SUBREAPER: Final = 36
GIVEN: Final = tuple(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]
PIPES: Final = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
ONE_AT_A_TIME: Final = Lock()


class Forked(subprocess.Popen[T]):
    """A Popen that spares `python -m MODULE` its imports; other commands are executed.

    The process is a child of this one, with the streams, the folder, the environment and the
    session that were asked for. Its command line in /proc is that of the fork server.
    """

    def _execute_child(self, *given: Any) -> None:
        asked = dict(zip(GIVEN, given, strict=True))
        module = _module_in([os.fsdecode(word) for word in asked["args"]])
        if module is None or sys.platform != "linux":
            super()._execute_child(*given)  # type: ignore[misc]
            return
        command = module | {
            "folder": os.fspath(asked["cwd"] or os.getcwd()),
            "environment": dict(os.environ if asked["env"] is None else asked["env"]),
            "new_session": asked["start_new_session"],
        }
        streams = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        self.pid = _fork(command, [own if end == -1 else end for own, end in enumerate(streams)])
        self._child_created = True
        self._close_pipe_fds(*(asked[name] for name in PIPES))  # type: ignore[attr-defined]


def _module_in(words: list[str]) -> dict[str, Any] | None:
    """What the fork server is told of `python [-u] -m MODULE ...`; None of other commands."""
    program, *options = words
    is_unbuffered = options[:1] == ["-u"]
    if is_unbuffered:
        del options[0]
    if program != sys.executable or options[:1] != ["-m"]:
        return None
    return {"module": options[1], "arguments": options[2:], "is_unbuffered": is_unbuffered}


def _fork(command: dict[str, Any], streams: list[int]) -> int:
    prctl = ctypes.CDLL(None).prctl
    with ONE_AT_A_TIME:
        server = _server()
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(server, [json.dumps(command).encode()], streams)
            said = server.recv(100)
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    assert said, "the fork server has ended"
    return int(said)


@cache
def _server() -> socket.socket:
    """The connection to this process's fork server, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for one in (ours, theirs):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, fork_server.LONGEST)
    process = subprocess.Popen(
        [sys.executable, "-m", fork_server.__name__, str(theirs.fileno())],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


@contextmanager
def forked_fleets() -> Iterator[None]:
    """The workers and the monitors of a fleet are forked, too, while the block runs."""
    executed = Program.popen
    Program.popen = Forked[bytes]
    try:
        yield
    finally:
        Program.popen = executed
