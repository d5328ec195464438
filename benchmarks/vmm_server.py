"""Monitors to ask: a real one, or processes that give every request the same answer."""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from generated_vmm import VmmClient

BODY = (
    b'{"vcpu_count":2,"mem_size_mib":512,"smt":false,"track_dirty_pages":false,"huge_pages":"None"}'
)
ANSWER = (
    b"HTTP/1.1 200 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


@contextmanager
def real_monitor(binary: str) -> Iterator[str]:
    """The path of its socket, for as long as the `with` block runs; it boots nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "vmm.sock"))
        process = subprocess.Popen(
            [binary, "--api-sock", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with VmmClient(path) as vm:
                vm.wait_until_ready(10)
            yield path
        finally:
            process.kill()
            process.wait()


@contextmanager
def fixed_answer_servers(count: int) -> Iterator[list[str]]:
    """The paths of so many sockets, for as long as the `with` block runs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder, f"{number}.sock")) for number in range(count)]
        listeners = [_listening(path) for path in paths]
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(listeners,))
        process.start()
        try:
            yield paths
        finally:
            process.kill()
            process.join()
            for listener in listeners:
                listener.close()


def _listening(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    return listener


def _serve(listeners: list[socket.socket]) -> None:
    selector = selectors.DefaultSelector()
    for listener in listeners:
        selector.register(listener, selectors.EVENT_READ, listener)
    while True:
        for key, _ in selector.select():
            connection, _ = key.data.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        while connection.recv(65_536):
            connection.sendall(ANSWER)
