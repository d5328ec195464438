"""A guest over a machine: a monitor, its client, and the socket of its vsock device."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from generated_vmm import AsyncVmmClient, VmmClient
from generated_vmm.guest import AsyncGuest, Guest, GuestAgentError, GuestMachineError
from generated_vmm.testing import SimulatedMonitor
from tests.vmm.guest.conftest import Start


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[SimulatedMonitor]:
    """A machine that runs, with a vsock device and no agent."""
    with SimulatedMonitor(tmp_path / "api.socket", check_files=False) as monitor:
        monitor.guest.boot_seconds = 0
        with VmmClient(monitor.socket_path) as vm:
            vm.vsock.set(guest_cid=3, uds_path=tmp_path / "v.sock")
            vm.boot("/vm/vmlinux", "/vm/rootfs.ext4")
        yield monitor


def test_the_simulated_monitor_runs_the_real_agent_and_says_what_that_means(
    monitor: SimulatedMonitor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        monitor.guest.run_agent()
    assert "no isolation" in caplog.text
    with VmmClient(monitor.socket_path) as vm, Guest(vm) as guest:
        assert guest.wait_until_ready(10).isolated is False
        assert guest.run(["cat"], input=b"over the client").stdout == b"over the client"
    with Guest(tmp_path / "v.sock") as guest:
        guest.path(tmp_path / "file").write_bytes(b"over the socket")
    assert (tmp_path / "file").read_text() == "over the socket"


def test_tasks_run_programs_side_by_side(monitor: SimulatedMonitor) -> None:
    monitor.guest.run_agent()

    async def both() -> list[bytes]:
        async with AsyncVmmClient(monitor.socket_path) as vm, AsyncGuest(vm) as guest:
            fifo = str(monitor.socket_path.with_name("fifo"))
            (await guest.run(["mkfifo", fifo])).check_returncode()
            reading, writing = guest.run(["cat", fifo]), guest.run(["sh", "-c", f"echo hi >{fifo}"])
            done = await asyncio.gather(reading, writing)
            return [each.stdout for each in done]

    assert asyncio.run(both()) == [b"hi\n", b""]


def test_a_run_whose_every_await_is_cancelled_ends_its_program(
    monitor: SimulatedMonitor, tmp_path: Path
) -> None:
    monitor.guest.run_agent()
    path = tmp_path / "v.sock"

    async def cancelled() -> int:
        async with AsyncGuest(path) as guest, AsyncGuest(path) as other:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(guest.run, ["sleep", "60"])
                while not await other.programs():
                    pass
                tasks.cancel_scope.cancel()
            (state,) = await other.programs()
            return await (await other.attach(state.id)).wait(10)

    assert asyncio.run(cancelled()) == -9


def test_the_agent_ends_with_its_machine(monitor: SimulatedMonitor, tmp_path: Path) -> None:
    monitor.guest.run_agent()
    with Guest(tmp_path / "v.sock", timeout=0.3) as guest:
        program = guest.start(["sleep", "60"])
        monitor.stop()
        with pytest.raises((GuestMachineError, GuestAgentError)):
            program.poll()
        with pytest.raises(GuestMachineError):
            program.poll()


def test_what_is_no_machine_is_refused(monitor: SimulatedMonitor) -> None:
    for machine in (monitor, None, 3):
        with pytest.raises(TypeError, match="pass a monitor, a client, or the path of the"):
            Guest(machine).info()  # type: ignore[arg-type]


def test_a_socket_that_is_not_there_is_told_immediately(tmp_path: Path, connect: Start) -> None:
    begun = time.monotonic()
    for options, why in (({}, "there is no socket at"), ({"port": None}, "No such file")):
        guest = connect(tmp_path / "none.sock", timeout=60, **options)
        with pytest.raises(GuestMachineError, match=why):
            guest.run(["true"])
        with pytest.raises(GuestMachineError):
            guest.wait_until_ready(0.1)
    assert time.monotonic() - begun < 30


def test_a_machine_that_runs_without_a_vsock_device_is_told_immediately(tmp_path: Path) -> None:
    async def tell(path: str | Path) -> None:
        async with AsyncVmmClient(path) as vm, AsyncGuest(vm, timeout=60) as guest:
            await guest.info()

    with (
        SimulatedMonitor(tmp_path / "api.socket", check_files=False) as monitor,
        VmmClient(monitor.socket_path) as vm,
        Guest(vm, timeout=60) as guest,
    ):
        with pytest.raises(GuestMachineError, match=r"no vsock device$"):
            guest.wait_until_ready(0.1)  # it may get one before its start
        vm.boot("/vm/vmlinux", "/vm/rootfs.ext4")
        begun, told = time.monotonic(), r"before the start: vm\.vsock\.set\("
        for ask in (
            guest.info,
            lambda: asyncio.run(tell(monitor.socket_path)),
        ):
            with pytest.raises(GuestMachineError, match=told):
                ask()
        assert time.monotonic() - begun < 30


def test_a_machine_that_starts_is_waited_for(tmp_path: Path, connect: Start) -> None:
    guest = connect(tmp_path / "v.sock")
    with SimulatedMonitor(tmp_path / "api.socket", check_files=False) as monitor:
        monitor.guest.boot_seconds = 0
        monitor.guest.run_agent()

        def boot() -> None:
            with VmmClient(monitor.socket_path) as vm:
                vm.vsock.set(guest_cid=3, uds_path=tmp_path / "v.sock")
                vm.boot("/vm/vmlinux", "/vm/rootfs.ext4")

        later = threading.Timer(0.2, boot)
        later.start()
        assert guest.wait_until_ready(60).version == 1
        later.join()


def test_the_socket_of_the_api_is_told(monitor: SimulatedMonitor, connect: Start) -> None:
    guest = connect(monitor.socket_path, timeout=0.2)
    with pytest.raises(GuestMachineError, match="the socket of the vsock device, not of the A"):
        guest.info()


def test_an_error_says_that_no_agent_listens(monitor: SimulatedMonitor, tmp_path: Path) -> None:
    with Guest(tmp_path / "v.sock", timeout=1) as guest:
        said = ""
        for _ in range(20):  # on a busy computer, the last attempt may have no time for an answer
            with pytest.raises((GuestAgentError, GuestMachineError)) as caught:
                guest.info()
            said += str(caught.value)
            if "no agent" in said:
                break
        assert "the machine responds, but no agent listens" in said
        monitor.guest.run_agent()
        assert guest.info().version == 1
