"""The metadata service, vsock, and the outlets: logger, metrics, serial, entropy."""

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.description import Json
from generated_vmm.testing.rules.services import merge_patch
from tests.vmm.simulator.caller import Caller, connect
from tests.vmm.simulator.conftest import MakeMonitor

TOO_LARGE = "MMDS limit exceeded error: The MMDS patch request doesn't fit."


@pytest.mark.parametrize("content", [{"b": {"c": [1, None]}, "a": "é"}, [1, 2], "text", 5, True])
def test_any_json_is_stored_as_it_is(call: Caller, content: object) -> None:
    call.accepted("PUT", "/mmds", json.dumps(content))
    assert call("GET", "/mmds").json == content


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_patch_is_merged_as_rfc_7396_appendix_a_says(
    target: Json, patch: Json, result: Json
) -> None:
    assert merge_patch(target, patch) == result


def test_data_over_the_limit_is_refused_with_413(make_monitor: MakeMonitor) -> None:
    call = Caller(make_monitor(mmds_size_limit=20).socket_path)
    call.accepted("PUT", "/mmds", {"a": "x" * 12})
    reply = call("PUT", "/mmds", {"a": "x" * 13})
    assert (reply.status, reply.fault) == (413, TOO_LARGE)
    assert call("PATCH", "/mmds", {"b": 1}).status == 413
    assert call.get("/mmds") == {"a": "x" * 12}


@pytest.fixture
def path(call: Caller, folder: Path) -> Path:
    path = folder / "vsock.socket"
    call.accepted("PUT", "/vsock", {"guest_cid": 3, "uds_path": str(path)})
    return path


def handshake(connection: socket.socket, port: int) -> bytes:
    connection.sendall(b"CONNECT %d\n" % port)
    return connection.recv(100)


def test_a_second_put_moves_the_device(call: Caller, path: Path, folder: Path) -> None:
    other = folder / "other.socket"
    call.accepted("PUT", "/vsock", {"guest_cid": 4, "uds_path": str(other)})
    assert (path.exists(), other.is_socket()) == (False, True)


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


@pytest.mark.parametrize("end", [SimulatedMonitor.stop, SimulatedMonitor.exit])
def test_the_end_of_the_monitor_breaks_connections(
    monitor: SimulatedMonitor,
    path: Path,
    start: Callable[[], None],
    end: Callable[[SimulatedMonitor], None],
) -> None:
    monitor.guest.listen(52)
    start()
    with connect(path) as connection:
        handshake(connection, 52)
        end(monitor)
        assert connection.recv(1) == b""
    assert path.is_socket() is (end is SimulatedMonitor.exit)


# Logger, metrics, serial and entropy


def test_the_logger_may_be_set_again_and_makes_its_file(call: Caller, folder: Path) -> None:
    log = folder / "log"
    call.accepted("PUT", "/logger", {"log_path": str(log), "level": "Warn"})
    call.accepted("PUT", "/logger", {"level": "oFF", "module": None})
    assert log.exists()


def test_metrics_are_set_once(call: Caller, folder: Path) -> None:
    refusal = "Metrics error: Cannot initialize the metrics system due to bad user input: "
    metrics = folder / "metrics"
    assert call("PUT", "/metrics", {"metrics_path": "/no/such/folder/m"}).fault.startswith(refusal)
    call.accepted("PUT", "/metrics", {"metrics_path": str(metrics), "unknown": 1})
    assert metrics.exists()
    assert call("PUT", "/metrics", {"metrics_path": str(metrics)}).fault == (
        f"{refusal}Reinitialization of metrics not allowed."
    )


def test_the_guest_says_what_it_was_told_to_after_the_boot(
    call: Caller, monitor: SimulatedMonitor, start: Callable[[], None], folder: Path
) -> None:
    with pytest.raises(TypeError, match=r"a list of lines: boot_messages=\['ready'\]"):
        monitor.guest.boot_messages = "ready"
    monitor.guest.boot_messages = ["ready", "login:"]
    call.accepted("PUT", "/serial", {"serial_out_path": str(folder / "serial")})
    start()
    said = (folder / "serial").read_text()
    assert said.startswith("guest is up\n")
    assert said.endswith("guest serves\nready\nlogin:\n")


def test_the_log_has_what_its_level_lets_through(call: Caller, folder: Path) -> None:
    settings = {"log_path": str(folder / "log"), "level": "Error", "show_level": True}
    call.accepted("PUT", "/logger", settings)
    call.accepted("PUT", "/entropy", {})
    assert (folder / "log").read_text() == ""
    refused = call("GET", "/nope").fault
    call.accepted("PUT", "/logger", {"level": "Info", "show_log_origin": True})
    error, *more = (folder / "log").read_text().splitlines()
    assert error.endswith(
        f"[anonymous-instance:fc_api:ERROR] Received Error. Status code: 400. Message: {refused}"
    )
    assert ":fc_api:INFO:" in more[-1]


def test_a_module_narrows_the_log(call: Caller, folder: Path) -> None:
    call.accepted("PUT", "/logger", {"log_path": str(folder / "log"), "module": "vmm::devices"})
    call.accepted("PUT", "/entropy", {})
    assert (folder / "log").read_text() == ""


def open_below(folder: Path) -> int:
    """How many of this process's descriptors are of files in `folder`: others come and go."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            count += descriptor.readlink().is_relative_to(folder)
    return count


def test_outlets_named_again_and_again_hold_no_more_files(
    call: Caller, kernel: str, folder: Path
) -> None:
    call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
    call.accepted("PUT", "/pmem/p", {"id": "p", "path_on_host": str(folder / "nothing")})

    def name_them() -> int:
        call.accepted("PUT", "/logger", {"log_path": str(folder / "log")})
        call("PUT", "/metrics", {"metrics_path": str(folder / "metrics")})
        call.accepted("PUT", "/serial", {"serial_out_path": str(folder / "serial")})
        assert call("PUT", "/actions", {"action_type": "InstanceStart"}).status == 400
        return open_below(folder)

    first = name_them()
    assert first > 0
    assert max(name_them() for _ in range(5)) <= first
