import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, TypedDict, Unpack

import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.description import Description
from tests.vmm.simulator.caller import Caller

# The state rules are those of 1.16. With an older description committed the simulator lacks some of
# their operations and fields; these tests of them are left out, as are those in `tests/vmm/real`.
RULES_OF = (1, 16)
IS_OLDER = tuple(int(part) for part in API_VERSION.split(".")[:2]) < RULES_OF
collect_ignore = [
    "test_machine.py",
    "test_requests.py",
    "test_services.py",
    "test_snapshots.py",
    "test_transcripts.py",
] * IS_OLDER


Start = Callable[[], None]
"""Boots what has been configured so far."""


class Options(TypedDict, total=False):
    """The options of a monitor, by their keywords."""

    check_files: bool
    enable_pci: bool
    host_devices: Collection[str]
    instance_id: str
    version: str
    payload_limit: int
    mmds_size_limit: int
    description: Description


class MakeMonitor(Protocol):
    """Starts a monitor that is stopped after the test."""

    def __call__(self, name: str = ..., **options: Unpack[Options]) -> SimulatedMonitor: ...


@pytest.fixture
def kernel(folder: Path) -> str:
    path = folder / "vmlinux"
    path.write_bytes(b"\x7fELF")
    return str(path)


@pytest.fixture
def disk(folder: Path) -> str:
    path = folder / "rootfs.ext4"
    path.write_bytes(b"disk")
    return str(path)


@pytest.fixture
def backend(folder: Path) -> Iterator[str]:
    """The socket of a vhost-user backend that accepts and says nothing."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "vub.sock"))
        listener.listen()
        yield str(folder / "vub.sock")


@pytest.fixture
def make_monitor(folder: Path) -> Iterator[MakeMonitor]:
    """Starts monitors with other options than the usual ones, and stops them."""
    with ExitStack() as stack:

        def make(name: str = "made.socket", **options: Unpack[Options]) -> SimulatedMonitor:
            return stack.enter_context(at_once(SimulatedMonitor(folder / name, **options)))

        yield make


@pytest.fixture
def monitor(folder: Path) -> Iterator[SimulatedMonitor]:
    """A monitor that checks host files, as a real one does."""
    with at_once(SimulatedMonitor(folder / "api.socket")) as monitor:
        yield monitor


def at_once(monitor: SimulatedMonitor) -> SimulatedMonitor:
    """The monitor, with a guest that boots in no time."""
    monitor.guest.boot_seconds = 0
    return monitor


@pytest.fixture
def call(monitor: SimulatedMonitor) -> Caller:
    return Caller(monitor.socket_path)


@pytest.fixture
def start(call: Caller, kernel: str) -> Start:

    def boot() -> None:
        boot = {"kernel_image_path": kernel, "boot_args": "console=ttyS0"}
        call.accepted("PUT", "/boot-source", boot)
        call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})

    return boot
