"""Starting a program with nothing of ours but what it is given."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator, Mapping, Sequence

CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
GIVEN = 3  # descriptors: input, output, errors


def spawn(words: Sequence[str], env: Mapping[str, str], descriptors: Sequence[int]) -> int:
    """Starts a program with these descriptors as its first ones, and gives its number.

    It is in a session of its own: a Ctrl+C at the terminal is for the caller, who ends it in order.
    Raises `OSError` when the system does not start it.
    """
    with contextlib.ExitStack() as stack:
        above = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, GIVEN) for each in descriptors]
        for each in above:
            stack.callback(os.close, each)
        given = [(os.POSIX_SPAWN_DUP2, mine, theirs) for theirs, mine in enumerate(above)]
        return os.posix_spawn(
            words[0],
            list(words),
            env,
            file_actions=[*given, *((os.POSIX_SPAWN_CLOSE, each) for each in _inherited())],
            setsid=True,
            setsigmask=(),
            setsigdef=CHANGED_BY_PYTHON,
        )


def _inherited() -> Iterator[int]:
    """The descriptors that would go on to the program, such as a server's listening socket."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            if int(name) >= GIVEN and os.get_inheritable(int(name)):
                yield int(name)
