import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from generated_vmm.guest import Guest
from tests.vmm.real_guest.rigs import DEBIAN, EMULATED, FOLDER, OUTER, Firecracker, guest_of, rig

RELAY = Path(__file__).with_name("relay.py")


def require_rig() -> None:
    """The rigs take minutes to build and to boot: `make real-guest` runs them, and nothing else."""
    if "REAL_GUEST" not in os.environ:
        pytest.skip("not run: make real-guest builds the rigs and runs these tests")


@pytest.fixture(scope="session")
def emulated() -> Iterator[Guest]:
    """The guest under QEMU."""
    require_rig()
    rig("guest")
    yield guest_of(EMULATED)
    rig("stop")


@pytest.fixture(scope="session")
def debian() -> Iterator[Guest]:
    """The guest of `docs/vmm/guest.md` under QEMU."""
    require_rig()
    if not (FOLDER / "debian" / "rootfs.ext4").exists():
        pytest.skip("not run: the Debian disk needs debootstrap, lz4 and e2fsprogs")
    rig("debian")
    yield guest_of(DEBIAN)
    rig("stop")


@pytest.fixture(scope="session")
def outer() -> Iterator[Guest]:
    """The machine with an emulated KVM, in which Firecracker runs."""
    require_rig()
    if not (FOLDER / "outer.gz").exists():
        pytest.skip("not run: FIRECRACKER_BIN is not set, so there is no real Firecracker to run")
    rig("outer")
    guest = guest_of(OUTER)
    guest.path("/vm/relay.py").write_bytes(RELAY.read_bytes())
    yield guest
    rig("stop")


@pytest.fixture(scope="session")
def monitor(outer: Guest) -> Iterator[Firecracker]:
    with ExitStack() as stack:
        yield Firecracker(outer, 0, stack)


@pytest.fixture(scope="session")
def inner(monitor: Firecracker) -> Guest:
    """The guest of the real Firecracker."""
    return monitor.boot()


@pytest.fixture(scope="session", params=["emulated", "inner"])
def guest(request: pytest.FixtureRequest) -> Guest:
    """A Linux guest of either rig."""
    found: Guest = request.getfixturevalue(request.param)
    return found
