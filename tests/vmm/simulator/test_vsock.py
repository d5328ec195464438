"""The vsock device: its socket on the host and a guest that listens or not."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller, connect


@pytest.fixture
def path(call: Caller, folder: Path) -> Path:
    path = folder / "vsock.socket"
    call.accepted("PUT", "/vsock", {"guest_cid": 3, "uds_path": str(path), "vsock_id": "old"})
    return path


def handshake(connection: socket.socket, port: int) -> bytes:
    connection.sendall(b"CONNECT %d\n" % port)
    return connection.recv(100)


def test_the_socket_is_there_at_once_and_the_old_id_is_not_shown(call: Caller, path: Path) -> None:
    assert path.is_socket()
    assert call.get("/vm/config")["vsock"] == {"guest_cid": 3, "uds_path": str(path)}


def test_a_path_that_is_taken_is_refused(call: Caller, disk: str) -> None:
    assert call("PUT", "/vsock", {"guest_cid": 3, "uds_path": disk}).fault == (
        "Vsock config error: Cannot create backend for vsock device: "
        "Error binding to the host-side Unix socket: Address already in use (os error 98)"
    )


def test_a_second_put_moves_the_device(call: Caller, path: Path, folder: Path) -> None:
    other = folder / "other.socket"
    call.accepted("PUT", "/vsock", {"guest_cid": 4, "uds_path": str(other)})
    assert (path.exists(), other.is_socket()) == (False, True)


def test_a_port_the_guest_listens_on_answers_and_echoes(
    monitor: SimulatedMonitor, path: Path, start: Callable[[], None]
) -> None:
    monitor.guest.listen(52)
    start()
    with connect(path) as connection:
        assert handshake(connection, 52) == b"OK 1073741824\n"
        connection.sendall(b"hello")
        assert connection.recv(5) == b"hello"


def test_a_port_nobody_listens_on_is_closed(
    monitor: SimulatedMonitor, path: Path, start: Callable[[], None]
) -> None:
    monitor.guest.listen(52)
    monitor.guest.close(52)
    start()
    with connect(path) as connection:
        assert handshake(connection, 52) == b""


@pytest.mark.parametrize("command", [b"CONNECT x\n", b"HELLO 52\n", b"C" * 32])
def test_no_handshake_is_closed(
    monitor: SimulatedMonitor, path: Path, start: Callable[[], None], command: bytes
) -> None:
    monitor.guest.listen(52)
    start()
    with connect(path) as connection:
        connection.sendall(command)
        assert connection.recv(100) == b""


def test_a_connection_waits_until_the_guest_runs(
    monitor: SimulatedMonitor, path: Path, start: Callable[[], None]
) -> None:
    monitor.guest.listen(52, lambda connection: connection.sendall(b"up\n"))
    with connect(path) as connection:
        connection.sendall(b"CONNECT 52\n")
        start()
        received = b""
        while not received.endswith(b"up\n"):
            received += connection.recv(100)
    assert received == b"OK 1073741824\nup\n"


def test_stopping_the_monitor_breaks_connections_and_removes_the_socket(
    monitor: SimulatedMonitor, path: Path, start: Callable[[], None]
) -> None:
    monitor.guest.listen(52)
    start()
    with connect(path) as connection:
        handshake(connection, 52)
        monitor.stop()
        assert connection.recv(1) == b""
    assert not path.exists()


def test_the_end_of_the_process_breaks_connections_and_leaves_the_socket(
    monitor: SimulatedMonitor, path: Path, start: Callable[[], None]
) -> None:
    monitor.guest.listen(52)
    start()
    with connect(path) as connection:
        handshake(connection, 52)
        monitor.exit()
        assert connection.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(path)
    assert path.is_socket()


def test_a_host_that_leaves_during_the_handshake_harms_nobody(
    monitor: SimulatedMonitor, path: Path, start: Callable[[], None]
) -> None:
    monitor.guest.listen(52)
    start()
    with connect(path) as connection:
        connection.sendall(b"CONNECT 5")
    with connect(path) as connection:
        assert handshake(connection, 52).startswith(b"OK ")
