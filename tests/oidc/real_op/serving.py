"""An ASGI app on a real socket, whose address is known before the app is made."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

START_SECONDS = 10.0


@contextmanager
def free_socket() -> Iterator[tuple[socket.socket, str]]:
    """A listening socket of this machine and the origin it will serve."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def serving(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """Serves `app` from a thread while the block runs."""
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=1)
    )
    thread = Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + START_SECONDS
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.005)
        yield
    finally:
        server.should_exit = True
        thread.join()
