"""Monitors for tests: the real one that FIRECRACKER_BIN names, else the simulated one."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from generated_vmm.process import AsyncMonitor, JailedMonitor, Monitor
from generated_vmm.process.__main__ import look
from generated_vmm.process.keeper.kernel import is_ready
from tests.vmm.halves import Do as Do

SIMULATED = [sys.executable, "-m", "generated_vmm.testing"]
PATIENCE = 30.0  # seconds, for a busy machine


class Make(Protocol):
    """Makes a monitor that is not yet started and that ends with the test at the latest."""

    def __call__(self, *binary: Any, **options: Any) -> Monitor: ...


@pytest.fixture
def binary() -> list[str]:
    """The command of a monitor."""
    real = os.environ.get("FIRECRACKER_BIN")
    if not real:
        return SIMULATED
    found = shutil.which(real)
    if found is None:
        pytest.fail(f"FIRECRACKER_BIN names no program: {real}")
    return [os.path.abspath(found)]


@pytest.fixture
def guest(folder: Path) -> dict[str, Any]:
    """The arguments of `boot` for a guest that says `guest is up` on its console."""
    disk = folder / "disk"
    disk.write_bytes(bytes(1 << 20))
    kernel = str(disk)
    if os.environ.get("FIRECRACKER_BIN"):
        kernel = os.environ.get("KERNEL", "")
        if not kernel or not os.access("/dev/kvm", os.R_OK | os.W_OK):
            pytest.skip("not run: a guest of the real monitor needs KERNEL and /dev/kvm")
    return {
        "boot_source": {"kernel_image_path": os.path.abspath(kernel), "boot_args": "console=ttyS0"},
        "root_drive": str(disk),
        "machine_config": {"vcpu_count": 1, "mem_size_mib": 128},
    }


both_halves = pytest.mark.parametrize(
    "make", [Monitor, AsyncMonitor], ids=["sync", "async"], indirect=True
)
"""For tests of what waits differently in threads and in tasks. The others take the written half."""


def making(kind: Any, do: Do, programs: Sequence[Any], **usual: Any) -> Iterator[Make]:
    made: list[Monitor] = []

    def make(*words: Any, **options: Any) -> Monitor:
        made.append(kind(*(words or programs), **{"timeout": PATIENCE, **usual, **options}))
        return made[-1]

    yield make
    for monitor in made:
        do(monitor.kill())


@pytest.fixture
def make(request: pytest.FixtureRequest, do: Do, binary: list[str]) -> Iterator[Make]:
    yield from making(getattr(request, "param", AsyncMonitor), do, [binary])


@pytest.fixture
def start(make: Make, do: Do) -> Make:
    def start(*words: Any, **options: Any) -> Monitor:
        return do(make(*words, **options).start())

    return start


def own_jail(base: Path, **options: Any) -> JailedMonitor:
    """A jail of this test's own user, which therefore needs no root."""
    own: Any = {"id": "vm-1", "uid": os.getuid() or 1, "gid": os.getgid() or 1}
    own |= {"jailer": "/bin/true", "binary": "/bin/true", "chroot_base_dir": base}
    return JailedMonitor(**own | options)


class Watched:
    """A process, held by a pidfd: whoever's child it is, its end can be waited for."""

    def __init__(self, pid: int) -> None:
        self.pid, self._pidfd = pid, os.pidfd_open(pid)

    @property
    def running(self) -> bool:
        return not is_ready(self._pidfd, 0)

    def wait(self, seconds: float) -> bool:
        """Whether it ends in time."""
        return is_ready(self._pidfd, seconds)

    def send_signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        os.close(self._pidfd)


Watch = Callable[[int], Watched]


@pytest.fixture
def watch() -> Iterator[Watch]:
    watched: list[Watched] = []

    def watch(pid: int) -> Watched:
        watched.append(Watched(pid))
        return watched[-1]

    yield watch
    for each in watched:
        each.close()


BEGINNING = """\
import json, os, signal, sys, threading, time
from generated_vmm.process import Monitor
binary, folder = json.loads(sys.argv[1]), sys.argv[2]
def tell(**what):
    print(json.dumps(what), flush=True)
"""
WAITS = "sys.stdin.read()\n"
STARTS_ONE = """\
one = Monitor(binary, id="vm-1", directory=folder + "/vm", detached={0}, timeout=30).start()
tell(pid=one.pid)
"""


class Caller:
    """A program of its own that starts monitors."""

    def __init__(self, code: str, binary: list[str], folder: Path, within: Sequence[str]) -> None:
        program = [*within, sys.executable, "-c", BEGINNING + code]
        self.process = subprocess.Popen(
            [*program, json.dumps(binary), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def told(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def go_on(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def close(self) -> None:
        """Ends it with its forks."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


Call = Callable[..., Caller]
"""Starts a program that may use `binary`, `folder` and `tell`; the words before its command."""


@pytest.fixture
def call(binary: list[str], folder: Path) -> Iterator[Call]:
    callers: list[Caller] = []

    def call(code: str, *within: str) -> Caller:
        callers.append(Caller(code, binary, folder, within))
        return callers[-1]

    yield call
    for caller in callers:
        caller.close()


def children_of(pid: int) -> list[int]:
    """The processes that a process has forked, and has not collected."""
    try:
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(each) for task in tasks for each in task.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def nursery_of(pid: int) -> int:
    """The nursery of a caller."""
    (found,) = [each for each in children_of(pid) if b"nursery.py" in _command(each)]
    return found


def keeper_of(pid: int) -> int:
    """The keeper of a monitor."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def state_of(pid: int) -> str:
    """One letter, such as T for a stopped process and S for one that waits (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def status_of(folder: Path, *, clean: bool = False) -> str:
    """What `python -m generated_vmm.process` says of a folder."""
    return (look(str(folder), clean=clean) or [""])[0]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def wait_until(is_true: Callable[[], object]) -> None:
    """Waits for what another process does."""
    deadline = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def wait_until_empty(folder: Path) -> None:
    """The keepers have removed everything. They do so after the monitors have ended."""
    wait_until(lambda: not list(folder.iterdir()))
