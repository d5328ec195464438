"""Starting, stopping, ending; misbehaviour on demand."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from generated_vmm import VmmClient, VmmTimeoutError
from generated_vmm.testing import ReceivedCall, SimulatedMonitor
from generated_vmm.testing.guest import VsockBackend, echo
from generated_vmm.testing.process import main
from tests.vmm.simulator.caller import Caller, connect, exchange


async def test_it_is_an_async_context_manager_too(folder: Path) -> None:
    async with SimulatedMonitor(folder / "m.socket") as monitor:
        assert monitor.socket_path.is_socket()
    assert not monitor.socket_path.exists()


def test_a_path_that_exists_is_refused_and_left_alone(folder: Path) -> None:
    path = folder / "m.socket"
    path.write_text("precious")
    with pytest.raises(OSError, match="Check that it is not already used") as caught:
        SimulatedMonitor(path).start()
    assert caught.value.errno is not None
    assert path.read_text() == "precious"


def test_clients_may_connect_before_it_serves_and_it_may_stop_without_serving(folder: Path) -> None:
    monitor = SimulatedMonitor(folder / "m.socket")
    monitor.listen()
    with connect(monitor.socket_path) as connection:
        monitor.stop()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert not monitor.socket_path.exists()


def test_it_may_be_stopped_twice_and_started_afresh(monitor: SimulatedMonitor) -> None:
    call = Caller(monitor.socket_path)
    call.accepted("PUT", "/entropy", {})
    monitor.stop()
    monitor.stop()
    monitor.start()
    assert call.get("/vm/config")["entropy"] is None
    assert len(monitor.calls) == 1


def test_the_process_ends_though_the_client_has_left_before_the_answer(
    monitor: SimulatedMonitor, kernel: str
) -> None:
    monitor.stop()
    monitor.listen()
    serving = Thread(target=monitor.serve)
    serving.start()
    call = Caller(monitor.socket_path)
    call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
    call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})
    monitor.faults.delay_next(0.2)
    body = b'{"action_type":"SendCtrlAltDel"}'
    with connect(monitor.socket_path) as connection:
        connection.sendall(
            b"PUT /actions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
    serving.join(10)
    assert (serving.is_alive(), monitor.exit_code) == (False, 0)


def test_what_fails_within_the_simulation_is_answered_recorded_and_survived(
    monitor: SimulatedMonitor, call: Caller, start: Callable[[], None]
) -> None:
    balloon = {"amount_mib": 1, "deflate_on_oom": True, "stats_polling_interval_s": 1}
    call.accepted("PUT", "/balloon", balloon)
    start()
    monitor.guest.balloon_statistics = {"free_memroy": 1}
    reply = call("GET", "/balloon/statistics")
    assert reply.status == 500
    assert "failed: TypeError: there are no options ['free_memroy']; there are " in reply.fault
    failed = monitor.calls[-1]
    assert failed.status == 500
    assert isinstance(failed.error, TypeError)
    assert call("GET", "/version").status == 200


def test_a_guest_that_ends_leaves_a_socket_nobody_listens_on(monitor: SimulatedMonitor) -> None:
    monitor.exit(3)
    assert monitor.exit_code == 3
    assert monitor.socket_path.is_socket()
    with pytest.raises(ConnectionRefusedError):
        Caller(monitor.socket_path)("GET", "/")


def test_a_taken_path_is_told_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "m.socket"
    path.touch()
    assert main(["--socket", str(path)]) == 1
    complaint = capsys.readouterr().err
    assert f"Failed to open the API socket at: {path}." in complaint
    assert complaint.count("\n") == 1


GET = b"GET /version HTTP/1.1\r\n\r\n"


def receive_all(monitor: SimulatedMonitor, request: bytes = GET) -> bytes:
    received = b""
    with connect(monitor.socket_path) as connection:
        connection.sendall(request)
        while more := connection.recv(1000):
            received += more
    return received


def test_an_answer_is_cut_or_garbage(monitor: SimulatedMonitor) -> None:
    monitor.faults.cut_next(after=15)
    assert receive_all(monitor) == b"HTTP/1.1 200 \r\n"
    monitor.faults.garbage_next(b"HTTP/1.1 nonsense\r\n\r\n")
    assert exchange(monitor.socket_path, GET) == b"HTTP/1.1 nonsense\r\n\r\n"


def test_a_dropped_answer_was_carried_out(monitor: SimulatedMonitor, call: Caller) -> None:
    monitor.faults.drop_next()
    body = b"PUT /entropy HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
    assert receive_all(monitor, body) == b""
    assert call.get("/vm/config")["entropy"] == {"rate_limiter": None}


def test_a_scripted_refusal_leaves_the_machine_alone(
    monitor: SimulatedMonitor, call: Caller
) -> None:
    monitor.faults.refuse_next("no", status=413)
    reply = call("PUT", "/entropy", {})
    assert (reply.status, reply.fault) == (413, "no")
    assert call.get("/vm/config")["entropy"] is None


def test_a_connection_can_be_closed_at_once(monitor: SimulatedMonitor, call: Caller) -> None:
    monitor.faults.close_next_connection()
    with connect(monitor.socket_path) as connection:
        assert connection.recv(1) == b""
    assert call("GET", "/version").status == 200


def test_disturbances_queue_up_and_can_be_cleared(
    monitor: SimulatedMonitor, call: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    monitor.faults.refuse_next("first")
    monitor.faults.refuse_next("second")
    assert [call("GET", "/").fault, call("GET", "/").fault] == ["first", "second"]
    for _ in range(2):
        monitor.faults.clear()
        assert call("GET", "/").status == 200
        monitor.faults.refuse_next("never")
        monitor.faults.drop_next()
        monitor.faults.close_next_connection()
    monitor.stop()
    assert caplog.messages == [
        f"4 calls came to {monitor.socket_path}, and these faults did not happen: "
        "drop_next(...), refuse_next('never'), close_next_connection()"
    ]


def test_stopping_does_not_wait_for_a_delay(monitor: SimulatedMonitor) -> None:
    monitor.faults.delay_next(60)
    with connect(monitor.socket_path) as connection:
        connection.sendall(GET)
        while not monitor.calls:
            time.sleep(0.001)
        begun = time.monotonic()
        monitor.stop()
        assert time.monotonic() - begun < 5


def test_calls_tell_what_was_asked_and_answered(monitor: SimulatedMonitor, call: Caller) -> None:
    call("GET", "/version")
    call("PUT", "/entropy", {"rate_limiter": None})
    call("PATCH", "/vm", {"state": "Paused"})
    exchange(monitor.socket_path, b"POST / HTTP/1.1\r\n\r\n")
    assert monitor.calls == (
        ReceivedCall("GET", "/version", None, 200),
        ReceivedCall("PUT", "/entropy", b'{"rate_limiter": null}', 204),
        ReceivedCall("PATCH", "/vm", b'{"state": "Paused"}', 400),
    )
    assert monitor.calls[2].json() == {"state": "Paused"}
    with pytest.raises(ValueError, match="Expecting value"):
        monitor.calls[0].json()


def test_what_is_misspelled_is_refused(folder: Path) -> None:
    monitor = SimulatedMonitor(folder / "m.socket")
    with pytest.raises(AttributeError, match="boot_second"):
        setattr(monitor.guest, "boot_second", 0)  # noqa: B010  # as an untyped test does
    with pytest.raises(TypeError, match="the status is status=500"):
        monitor.faults.refuse_next(500)  # type: ignore[arg-type]


# A simulated microVM that ends while its guest comes up


def test_an_end_while_the_guest_comes_up_is_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    errors: list[BaseException] = []

    def close() -> None:
        try:
            backend.close(remove_file=True)
        except BaseException as error:
            errors.append(error)

    closing = threading.Thread(target=close)

    class Interleaved(threading.Thread):
        def start(self) -> None:
            closing.start()
            closing.join(0.2)  # it waits for the start, or has failed
            super().start()

    monkeypatch.setattr("generated_vmm.testing.guest.threading.Thread", Interleaved)
    backend = VsockBackend("v.sock", lambda _: echo, lambda: False)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    backend.activate()
    closing.join()
    assert errors == []
    assert list(tmp_path.iterdir()) == []


def test_a_guest_that_comes_up_after_the_end_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = VsockBackend("v.sock", lambda _: echo, lambda: False)
    backend.close(remove_file=False)
    backend.activate()
    connection: Any = socket.socket(socket.AF_UNIX)
    with connection, pytest.raises(ConnectionRefusedError):
        connection.connect("v.sock")


def test_a_paused_guest_responds_after_the_resume(tmp_path: Path) -> None:
    with (
        SimulatedMonitor(tmp_path / "api.sock", check_files=False) as monitor,
        VmmClient(tmp_path / "api.sock") as vm,
    ):
        monitor.guest.boot_seconds = 0
        monitor.guest.listen(52)
        vm.boot_source.set(kernel_image_path="/vmlinux")
        vm.vsock.set(guest_cid=3, uds_path=f"{tmp_path}/v.sock")
        vm.action("InstanceStart")
        vm.pause()
        with pytest.raises(VmmTimeoutError, match="must run, not be paused"):
            vm.connect_vsock(52, timeout=0.1)
        vm.resume()
        with vm.connect_vsock(52) as connection:
            connection.sendall(b"awake")
            assert connection.recv(5) == b"awake"
