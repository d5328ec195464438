"""A call bridges the time until a monitor, or a port of its guest, answers, and no more."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import (
    AsyncVmmClient,
    VmmApiError,
    VmmClient,
    VmmConnectionError,
    VmmTimeoutError,
)
from tests.vmm.facade.conftest import Run, Serve, result_of
from tests.vmm.scripted import Play, ScriptedServer, Wire, answer

INFO = answer(200, b'{"app_name":"a","id":"b","state":"Not started","vmm_version":"1"}')


def test_a_monitor_that_listens_is_ready_at_once(run_each: Run, serve: Serve) -> None:
    server = serve(lambda wire: wire.answer_all(INFO))
    assert run_each(lambda vm: vm.wait_until_ready()).state == "Not started"
    assert server.sent() == [("GET /", None)]


def test_a_monitor_that_starts_later_is_waited_for(run_each: Run, socket_path: Path) -> None:
    socket_path.touch()
    started: list[ScriptedServer] = []

    def start() -> None:
        time.sleep(0.1)
        socket_path.unlink()
        started.append(ScriptedServer(socket_path, lambda wire: wire.answer_all(INFO)))

    starter = threading.Thread(target=start)
    starter.start()
    assert run_each(lambda vm: vm.wait_until_ready(5)).state == "Not started"
    starter.join()
    started[0].stop()


def test_a_connection_that_closes_is_tried_again(run_each: Run, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        if len(server.connections) > 3:
            wire.answer_all(INFO)

    server = serve(play)
    assert run_each(lambda vm: vm.wait_until_ready(5)).state == "Not started"


def test_no_monitor_is_a_timeout(run_each: Run, socket_path: Path) -> None:
    with pytest.raises(VmmTimeoutError, match=r"not ready within 0.1 s, at last: .*No such file"):
        run_each(lambda vm: vm.wait_until_ready(0.1))


def test_a_monitor_that_never_answers_is_a_timeout(run_each: Run, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        while wire.receive():
            pass

    serve(play)
    with pytest.raises(VmmTimeoutError):
        run_each(lambda vm: vm.wait_until_ready(0.1), timeout=None)


def test_a_refusal_is_not_waited_out(run_each: Run, serve: Serve) -> None:
    serve(lambda wire: wire.answer_all(answer(400, b'{"fault_message":"no"}')))
    with pytest.raises(VmmApiError):
        run_each(lambda vm: vm.wait_until_ready(5))


@pytest.mark.parametrize("timeout", ["3", 0, -1, float("nan")])
def test_what_is_no_time_is_refused(run_each: Run, timeout: Any) -> None:
    with pytest.raises(ValueError, match="seconds"):
        run_each(lambda vm: vm.wait_until_ready(timeout))


@pytest.mark.parametrize("client", [VmmClient, AsyncVmmClient])
def test_a_closed_client_is_not_waited_for(client: type[Any], socket_path: Path) -> None:
    vm = client(socket_path)
    result_of(vm.close)
    with pytest.raises(VmmConnectionError, match="the client is closed") as got:
        result_of(lambda: vm.wait_until_ready(30))
    assert got.value.permanent


def test_the_longest_path_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    path = folder / ("y" * (107 - len(str(folder)) - 1))
    folder.mkdir()
    server = ScriptedServer(path, lambda wire: wire.answer_all(INFO))
    with VmmClient(path) as vm:
        assert vm.wait_until_ready(5).state == "Not started"
    server.stop()


# `connect_vsock` on the clients: the path comes from the monitor, or from the caller


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
