"""A program in place of the monitor that starts in milliseconds and knows few answers.

It forks when it gets SIGUSR1, and creates the socket of a vsock device.
"""

import os
import signal
import socket
import sys
import threading


def fork(*_: object) -> None:
    """A child in the same session, which does nothing."""
    if os.fork() == 0:
        while True:
            signal.pause()


def answer(request: bytes) -> bytes:
    """The response to a request."""
    if not request.startswith(b"PUT /vsock "):
        body = CONFIG % (VSOCKS[-1] if VSOCKS else b"null") if b"/vm/config" in request else BODY
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    vsock = socket.socket(socket.AF_UNIX)
    VSOCKS.append(request.partition(b"\r\n\r\n")[2])
    vsock.bind(request.partition(b'"uds_path":"')[2].partition(b'"')[0])
    vsock.listen()
    vsock.detach()
    return b"HTTP/1.1 204 No Content\r\n\r\n"


BODY = b'{"app_name":"Firecracker","id":"a","state":"Not started","vmm_version":"1.16.1"}'


def serve(connection: socket.socket) -> None:
    """Answers the requests of one connection."""
    with connection:
        while request := connection.recv(65_536):
            connection.sendall(answer(request))


CONFIG = b'{"vsock":%b}'
VSOCKS: list[bytes] = []
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, fork)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[sys.argv.index("--api-sock") + 1])
listener.listen()
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
