"""Programs and files by the agent of a guest, which is a process of this host here; wall time.

Files are on a file system in memory where there is one, so that no disk is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from generated_vmm.guest import Guest, agent
from tools.benchmarks.figures import Figure
from tools.benchmarks.rounds import Batch, costs, repeated

ROUNDS, CALLS = 41, 5
FILE_BYTES: Final = 128 * 10**6
SHARED_MEMORY: Final = Path("/dev/shm")
REASON: Final = "To join a control group, a process waits for the RCU of the kernel."


def figures() -> Iterator[Figure]:
    """Milliseconds for a program, and for 100 MB of a file."""
    with running_agent() as (guest, folder):
        yield from programs(guest)
        yield from files(guest, folder)


@contextmanager
def running_agent() -> Iterator[tuple[Guest, Path]]:
    """The agent as a process, and a folder for files."""
    place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="guest-", dir=place) as name:
        path = Path(name, "agent.socket")
        command = [sys.executable, "-S", agent.__file__, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout
                process.stdout.readline()
                with Guest(path, port=None) as guest:
                    yield guest, Path(name)
            finally:
                process.terminate()


def programs(guest: Guest, rounds: int = ROUNDS, calls: int = CALLS) -> Iterator[Figure]:
    """`true` by the agent, and by `subprocess` in a process like the agent's."""
    cases: dict[str, Batch] = {
        "Guest.run": repeated(lambda: guest.run(["true"])),
        "subprocess.run": repeated(lambda: subprocess.run(["true"], capture_output=True)),
    }
    measured = costs(cases, rounds=rounds, calls=calls)
    ours, own = measured["Guest.run"], measured["subprocess.run"]
    yield Figure("true: subprocess.run", own.median / 1000, "ms")
    yield Figure("true: Guest.run", ours.median / 1000, "ms")
    yield Figure(
        "true: Guest.run beyond subprocess.run", ours.above(own).median / 1000, "ms", 2.0, REASON
    )


def files(guest: Guest, folder: Path, size: int = FILE_BYTES, rounds: int = 9) -> Iterator[Figure]:
    """A file in each direction; 300 MB in a second are 333 ms for 100 MB."""
    content, path = os.urandom(10**6) * (size // 10**6), guest.path(folder / "file")
    path.write_bytes(content)
    cases: dict[str, Batch] = {
        "write_bytes": repeated(lambda: path.write_bytes(content)),
        "read_bytes": repeated(lambda: path.read_bytes(2 * size)),
    }
    for name, cost in costs(cases, rounds=rounds, calls=1).items():
        yield Figure(f"100 MB: {name}", cost.median / 1000 / (size / 10**8), "ms", 333.0)
