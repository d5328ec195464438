"""`connect_vsock` on the clients: the path comes from the monitor, or from the caller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from generated_vmm import AsyncVmmClient, VmmClient, VmmConnectionError
from tests.vmm.facade.conftest import Serve
from tests.vmm.scripted import Play, ScriptedServer, Wire, answer


def guest(wire: Wire) -> None:
    assert wire.receive() == b"CONNECT 52\n"
    wire.send(b"OK 1024\nhello")
    wire.receive()


def monitor_with(vsock: object) -> Play:
    """A monitor that gives one response to every call, and whose machine is not started."""
    info = {"app_name": "", "id": "", "vmm_version": "", "state": "Not started"}
    return lambda wire: wire.answer_all(answer(200, json.dumps(info | {"vsock": vsock}).encode()))


@pytest.fixture
def uds_path(tmp_path: Path) -> Iterator[Path]:
    device = ScriptedServer(tmp_path / "v.sock", guest)
    yield device.path
    device.stop()


def test_the_monitor_says_where_the_device_is(
    serve: Serve, socket_path: Path, uds_path: Path
) -> None:
    server = serve(monitor_with({"guest_cid": 3, "uds_path": str(uds_path)}))
    with VmmClient(socket_path) as vm, vm.connect_vsock(52) as connection:
        assert connection.recv(5) == b"hello"
    assert server.sent() == [("GET /vm/config", None)]


async def test_the_monitor_says_it_to_the_async_client(
    serve: Serve, socket_path: Path, uds_path: Path
) -> None:
    serve(monitor_with({"guest_cid": 3, "uds_path": str(uds_path)}))
    async with AsyncVmmClient(socket_path) as vm:
        reader, writer = await vm.connect_vsock(52)
        assert await reader.readexactly(5) == b"hello"
        writer.close()
        await writer.wait_closed()


def test_a_path_that_is_given_needs_no_monitor(uds_path: Path) -> None:
    with VmmClient("/none") as vm, vm.connect_vsock(52, uds_path=uds_path) as connection:
        assert connection.recv(5) == b"hello"


def test_a_machine_without_the_device(serve: Serve, socket_path: Path) -> None:
    serve(monitor_with(None))
    with (
        VmmClient(socket_path) as vm,
        pytest.raises(VmmConnectionError, match=r"GET /vm/config\) on .*: no vsock device"),
    ):
        vm.connect_vsock(52)
