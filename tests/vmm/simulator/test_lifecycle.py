"""Starting, stopping, ending: from Python, as a fixture and from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.process import main
from tests.vmm.simulator.caller import Caller, connect

pytest_plugins = ["generated_vmm.testing.plugin"]


def test_the_socket_is_there_while_the_monitor_is(folder: Path) -> None:
    path = folder / "m.socket"
    with SimulatedMonitor(path) as monitor:
        assert Caller(path)("GET", "/").status == 200
        assert monitor.state == "Not started"
    assert not path.exists()


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


def test_it_is_not_started_twice(monitor: SimulatedMonitor) -> None:
    with pytest.raises(RuntimeError, match="has been started already"):
        monitor.start()


def test_it_serves_only_what_it_listens_on(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="does not listen"):
        SimulatedMonitor(folder / "m.socket").serve()


def test_clients_may_connect_before_it_serves_and_it_may_stop_without_serving(
    folder: Path,
) -> None:
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


def test_a_guest_that_ends_leaves_a_socket_nobody_listens_on(monitor: SimulatedMonitor) -> None:
    monitor.exit(3)
    assert monitor.exit_code == 3
    assert monitor.socket_path.is_socket()
    with pytest.raises(ConnectionRefusedError):
        Caller(monitor.socket_path)("GET", "/")


def test_the_fixture_gives_a_monitor_that_takes_any_path(
    simulated_monitor: SimulatedMonitor,
) -> None:
    Caller(simulated_monitor.socket_path).accepted(
        "PUT", "/boot-source", {"kernel_image_path": "/no/such/kernel"}
    )


@pytest.fixture
def program(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The monitor as a program, ready to be called."""
    command = [sys.executable, "-m", "generated_vmm.testing", "--any-path", "--id", "mine"]
    with subprocess.Popen(
        [*command, "--socket", str(folder / "m.socket")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == (
            f"Simulated monitor listening on {folder / 'm.socket'}\n"
        )
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_and_removes_its_socket(
    program: subprocess.Popen[str], folder: Path, number: signal.Signals
) -> None:
    assert Caller(folder / "m.socket").get("/")["id"] == "mine"
    os.kill(program.pid, number)
    _, complaints = program.communicate(timeout=10)
    assert (program.returncode, complaints) == (0, "")
    assert not (folder / "m.socket").exists()


def test_the_program_ends_with_its_guest(program: subprocess.Popen[str], folder: Path) -> None:
    call = Caller(folder / "m.socket")
    load = {"snapshot_path": "/no/state", "mem_file_path": "/no/memory"}
    assert call("PUT", "/snapshot/load", load).status == 400
    assert program.wait(timeout=10) == 1
    assert (folder / "m.socket").is_socket()


def test_a_taken_path_is_told_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "m.socket"
    path.touch()
    assert main(["--socket", str(path)]) == 1
    complaint = capsys.readouterr().err
    assert f"Failed to open the API socket at: {path}." in complaint
    assert complaint.count("\n") == 1


def test_a_path_that_is_too_long_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--socket", "a" * 200]) == 1
    assert capsys.readouterr().err.endswith("(AF_UNIX path too long)\n")
