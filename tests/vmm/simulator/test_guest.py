"""A simulated microVM that ends while its guest comes up."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import VmmClient, VmmTimeoutError
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.guest import VsockBackend, echo


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
