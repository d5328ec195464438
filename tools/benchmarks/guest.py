"""Programs and files by the agent of a guest, which is a process of this host here; wall time.

Files are on a file system in memory where there is one, so that no disk is measured. The peers are
processes of this host, too, with connections that are open before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from generated_vmm.guest import Guest, agent
from tools.benchmarks.figures import Figure
from tools.benchmarks.guest_peers import Peer, peers
from tools.benchmarks.rounds import costs, repeated

ROUNDS, CALLS = 41, 5
FILE_BYTES: Final = 128 * 10**6
SHARED_MEMORY: Final = Path("/dev/shm")
OURS, OWN = "Guest.run", "subprocess.run"
PAUSE: Final = 0.06  # seconds: longer than the kernel remembers that processes change groups
REASON: Final = "Each step between processes waits for a processor."


def figures() -> Iterator[Figure]:
    """Milliseconds for a program, and for 100 MB of a file."""
    place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="guest-", dir=place)))
        guest = stack.enter_context(running_agent(folder))
        others = peers(folder, stack)
        yield from programs(guest, others)
        yield from files(guest, others, folder)


@contextmanager
def running_agent(folder: Path) -> Iterator[Guest]:
    """The agent as a process."""
    path = folder / "agent.socket"
    command = [sys.executable, "-S", agent.__file__, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            with Guest(path, port=None) as guest:
                yield guest
        finally:
            process.terminate()


def programs(guest: Guest, others: Mapping[str, Peer], rounds: int = ROUNDS) -> Iterator[Figure]:
    """`true` by the agent, by `subprocess` in a process like the agent's, and by peers."""
    calls: dict[str, Callable[[], object]] = {
        OWN: lambda: subprocess.run(["true"], capture_output=True),
        OURS: lambda: guest.run(["true"]),
        **{name: peer.run for name, peer in others.items()},
    }
    cases = {name: repeated(call) for name, call in calls.items()}
    in_a_row = costs(cases, rounds=rounds, calls=CALLS)
    rested = costs(cases, rounds=rounds, calls=1, before=lambda: time.sleep(PAUSE))
    for when, measured in (("in a row", in_a_row), ("after a pause", rested)):
        for name, cost in measured.items():
            yield Figure(f"true, {when}: {name}", cost.median / 1000, "ms")
        beyond = measured[OURS].above(measured[OWN]).median / 1000
        yield Figure(f"true, {when}: {OURS} beyond {OWN}", beyond, "ms", 2.0, REASON)


def files(
    guest: Guest, others: Mapping[str, Peer], folder: Path, size: int = FILE_BYTES, rounds: int = 9
) -> Iterator[Figure]:
    """A file in each direction; 300 MB in a second are 333 ms for 100 MB."""
    content, path = os.urandom(10**6) * (size // 10**6), guest.path(folder / "file")
    path.write_bytes(content)
    ours: dict[str, Callable[[], object]] = {
        "write_bytes": lambda: path.write_bytes(content),
        "read_bytes": lambda: path.read_bytes(2 * size),
    }
    for name, cost in costs(
        {name: repeated(call) for name, call in ours.items()}, rounds=rounds, calls=1
    ).items():
        yield Figure(f"100 MB: {name}", cost.median / 1000 / (size / 10**8), "ms", 333.0)
    for name, peer in others.items():
        small = content[: peer.file_bytes]
        (folder / "source").write_bytes(small)
        theirs = {"write": repeated(peer.write), "read": repeated(peer.read)}
        for way, cost in costs(theirs, rounds=3, calls=1).items():
            milliseconds = cost.median / 1000 / (len(small) / 10**8)
            yield Figure(f"100 MB: {name}, {way}", milliseconds, "ms")
