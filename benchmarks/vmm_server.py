"""A server process on a unix socket that gives every request the same answer."""

from __future__ import annotations

import multiprocessing
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BODY = (
    b'{"vcpu_count":2,"mem_size_mib":512,"smt":false,"track_dirty_pages":false,"huge_pages":"None"}'
)
ANSWER = (
    b"HTTP/1.1 200 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


@contextmanager
def fixed_answer_server() -> Iterator[str]:
    """The path of the socket, for as long as the `with` block runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "vmm.sock"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(64)
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(listener,))
        process.start()
        try:
            yield path
        finally:
            process.kill()
            process.join()
            listener.close()


def _serve(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        while connection.recv(65_536):
            connection.sendall(ANSWER)
