"""Monitors to ask: real ones, or a process that gives every request the same answer."""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from generated_vmm import VmmClient
from tools.benchmarks.load_client import is_whole

PATH = "/machine-config"
BODY = (
    b'{"vcpu_count":2,"mem_size_mib":512,"smt":false,"track_dirty_pages":false,"huge_pages":"None"}'
)
ANSWER = (
    b"HTTP/1.1 200 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
DONE = b"HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n"
START_SECONDS = 30.0


@contextmanager
def real_monitors(binary: str, count: int = 1) -> Iterator[list[str]]:
    """The paths of their sockets, for as long as the `with` block runs; they boot nothing."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        paths = [str(Path(folder, f"{number}.sock")) for number in range(count)]
        for path in paths:
            process = stack.enter_context(
                subprocess.Popen(
                    [binary, "--api-sock", path],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            stack.callback(process.kill)
        for path in paths:
            with VmmClient(path) as vm:
                vm.wait_until_ready(START_SECONDS)
        yield paths


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
        while request := _request(connection):
            connection.sendall(ANSWER if request.startswith(b"GET") else DONE)


def _request(connection: socket.socket) -> bytes:
    """The next request with its body, or nothing when none comes any more."""
    received = b""
    while not is_whole(received):
        part = connection.recv(65_536)
        if not part:
            return b""
        received += part
    return received
