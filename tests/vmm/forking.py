"""Real forks in tests: what a child found, and an operation that tells its calls apart."""

import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from generated_vmm import Operation
from tests.vmm.scripted import Wire, answer

LONGEST_CHILD = 30  # seconds


def echo(wire: Wire) -> None:
    """Answers each request with its own path."""
    while wire.request():
        wire.send(answer(200, wire.latest.split(b" ")[1]))


def echo_of(path: str) -> Operation[bytes]:
    """The call that `echo` answers with the path."""
    return Operation("echo", "GET", path, None, bytes)


@dataclass(frozen=True)
class Child:
    """A forked process that is at work."""

    pid: int
    reading: int

    def ended(self) -> tuple[int, object]:
        """Its exit status, and what its work returned, or the traceback of what that raised."""
        with open(self.reading, "rb") as pipe:
            said = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return status, pickle.loads(said) if said else "the child ended without a word"

    def result(self) -> object:
        """What its work returned; AssertionError otherwise."""
        status, result = self.ended()
        assert status == 0, result
        return result


def forked(work: Callable[[], object], seconds: int = LONGEST_CHILD) -> Child:
    """A fork of this process, with all its threads' locks, that does the work and ends."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 and newer warn of threads that the child lacks: that they do is the test.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _work_and_end(work, writing, seconds)
    os.close(writing)
    return Child(pid, reading)


def _work_and_end(work: Callable[[], object], writing: int, seconds: int) -> NoReturn:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    status = 1
    try:
        said = pickle.dumps(work())
        status = 0
    except BaseException:
        said = pickle.dumps(traceback.format_exc())
    try:
        os.write(writing, said)
    finally:
        os._exit(status)


def open_sockets() -> set[str]:
    """The sockets that this process holds, each by a name of its own."""
    links = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            links.add(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # that of the listing itself
    return {link for link in links if link.startswith("socket:")}
