"""Monitors to ask: a real one, or a process that gives every request the same response."""

from __future__ import annotations

import multiprocessing
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from generated_vmm import VmmClient

PATH: Final = "/machine-config"
BODY: Final = (
    b'{"vcpu_count":2,"mem_size_mib":512,"smt":false,"track_dirty_pages":false,"huge_pages":"None"}'
)
RESPONSE: Final = (
    b"HTTP/1.1 200 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
DONE: Final = b"HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n"
START_SECONDS: Final = 30.0


@contextmanager
def real_monitor(binary: str) -> Iterator[str]:
    """The path of its socket, for as long as the block runs; it boots nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "api.sock"))
        command = [binary, "--api-sock", path]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                with VmmClient(path) as vm:
                    vm.wait_until_ready(START_SECONDS)
                yield path
            finally:
                process.kill()


@contextmanager
def fixed_response_server() -> Iterator[str]:
    """The path of a socket behind which a process responds, with a thread for each connection."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(folder, "api.sock"))
        listener.bind(path)
        listener.listen(16)
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(listener,))
        process.start()
        try:
            yield path
        finally:
            process.kill()
            process.join()


def _serve(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_respond, args=(connection,), daemon=True).start()


def _respond(connection: socket.socket) -> None:
    received = b""
    with connection:
        while part := connection.recv(65_536):
            received += part
            if is_whole(received):
                connection.sendall(RESPONSE if received.startswith(b"GET") else DONE)
                received = b""


def is_whole(received: bytes) -> bool:
    """Whether these bytes are a request, or a response, with its body."""
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    _, named, rest = head.lower().partition(b"content-length:")
    return not named or len(body) >= int(rest.partition(b"\r\n")[0])
