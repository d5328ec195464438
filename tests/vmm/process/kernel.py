"""What the kernel knows of monitors."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32


def user_of(folder: Path) -> int:
    """The user of the jails in a folder, who has no other processes."""
    return 100_000 + crc32(os.fsencode(folder)) % 1_000_000


def name_of(folder: Path) -> str:
    """The id of the jails in a folder."""
    return f"vm-{user_of(folder)}"


def processes(folder: Path) -> Iterator[tuple[int, bool]]:
    """The processes of monitors, each with whether it is in a jail."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if int(status(name, "Uid")[0]) == user_of(folder):
                yield int(name), True
            elif f"MOMENT={folder}".encode() in Path(f"/proc/{name}/environ").read_bytes():
                yield int(name), False


def status(pid: int | str, field: str) -> list[str]:
    """A field of a process that has not ended. Raises OSError."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return line.split()[1:]
    raise ProcessLookupError(pid)


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    with contextlib.suppress(OSError):
        return bool(int(status(pid, "SigCgt")[0], 16) >> (number - 1) & 1)
    return False


def children(pid: int) -> list[int]:
    """The children of a process with one thread. Raises OSError if it has ended."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def has_children(pid: int) -> bool:
    """Whether a process has children; true if it has ended, and cannot get any."""
    try:
        return bool(children(pid))
    except OSError:
        return True


def cgroups_of(pid: int) -> Iterator[Path]:
    """The folders of the control groups of a process."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        yield Path(f"/sys/fs/cgroup/{controllers.removeprefix('name=')}{path}")


def control_groups(folder: Path) -> list[str]:
    """The control groups of a folder's jails."""
    return list(map(str, Path("/sys/fs/cgroup").glob(f"*/firecracker/{name_of(folder)}")))


def descriptors() -> set[str]:
    """What this process has open, but for the nursery's socket."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(f"{each.name} {each.readlink()}")
    return {name for name in found if "/proc/" not in name}


def left(before: set[str]) -> list[str]:
    """Descriptors of monitors that are still open. Threads may need a moment to end."""
    deadline = time.monotonic() + 30
    while True:
        found = sorted(
            name for name in descriptors() - before if "socket:" not in name and "pidfd" not in name
        )
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.002)
