"""What monitors cost: `python -m tools.benchmarks.processes [MONITORS]`, with FIRECRACKER_BIN.

Prints the median seconds of a start, a stop and an attach, the private memory of what keeps a
monitor, how long 100 monitors outlive their caller, and how long MONITORS at once (1,000) take to
start, to answer and to end. It uses only names that every release of the library has.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from generated_vmm.process import Monitor

BINARY = os.environ["FIRECRACKER_BIN"]
ROUNDS, KILLED, WORKERS = 40, 100, 32
STARTS_MANY = """\
import sys
from concurrent.futures import ThreadPoolExecutor
from generated_vmm.process import Monitor
binary, folder, number = sys.argv[1:]
made = [Monitor(binary, directory=f"{folder}/{each}", timeout=60) for each in range(int(number))]
with ThreadPoolExecutor(16) as pool:
    list(pool.map(Monitor.start, made))
print(*(each.pid for each in made), flush=True)
sys.stdin.read()
"""


def seconds_of(call: Callable[[], object]) -> float:
    begun = time.monotonic()
    call()
    return time.monotonic() - begun


def starts_stops_attaches(folder: Path) -> None:
    starts, stops, attaches = [], [], []
    for number in range(ROUNDS):
        monitor = Monitor(BINARY, directory=folder / str(number), detached=True)
        starts.append(seconds_of(monitor.start))
        monitor.detach()
        begun = time.monotonic()
        taken = Monitor.attach(monitor.directory)
        attaches.append(time.monotonic() - begun)
        stops.append(seconds_of(taken.stop))
    for name, found in (("start", starts), ("attach", attaches), ("stop", stops)):
        print(f"{name}: {statistics.median(found) * 1000:.1f} ms")


def private_memory(folder: Path) -> None:
    """Of all descendants that are no monitors: with 1 and with 21 of them."""

    def used() -> int:
        found = 0
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                if b"python" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                    found += sum(int(line.split()[1]) for line in lines if "Private_" in line)
        return found

    monitors = [Monitor(BINARY, directory=folder / "first").start()]
    before = used()
    monitors += [Monitor(BINARY, directory=folder / str(number)).start() for number in range(20)]
    print(f"private memory: {before} KiB with one, {(used() - before) / 20:.0f} KiB for each more")
    for monitor in monitors:
        monitor.kill()


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def killed_caller(folder: Path) -> None:
    command = [sys.executable, "-c", STARTS_MANY, BINARY, str(folder), str(KILLED)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        pids = [int(pid) for pid in caller.stdout.readline().split()]
        caller.send_signal(signal.SIGKILL)
        begun, gone = time.monotonic(), 0.0
        while list(folder.iterdir()):
            if not gone and not any(Path(f"/proc/{pid}").exists() for pid in pids):
                gone = time.monotonic() - begun
            time.sleep(0.005)
        files = time.monotonic() - begun
        print(f"{KILLED} monitors of a killed caller: gone after {gone or files:.2f} s")
        print(f"their files: gone after {files:.2f} s")


def many(folder: Path, number: int) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    made = [Monitor(BINARY, directory=folder / str(each), timeout=300) for each in range(number)]
    with ThreadPoolExecutor(WORKERS) as pool:
        for name, call in (
            ("started", Monitor.start),
            ("answered", lambda each: each.client.get_version()),
            ("ended", Monitor.stop),
        ):
            took = seconds_of(lambda call=call: list(pool.map(call, made)))  # type: ignore[misc]
            print(f"{number} monitors {name} in {took:.1f} s")
    assert list(folder.iterdir()) == []


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    for measure in (starts_stops_attaches, private_memory, killed_caller):
        with tempfile.TemporaryDirectory(prefix="measure-") as folder:
            measure(Path(folder))
    with tempfile.TemporaryDirectory(prefix="measure-") as folder:
        many(Path(folder), number)


if __name__ == "__main__":
    main()
