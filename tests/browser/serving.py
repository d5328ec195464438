"""Puts an ASGI application on a socket of this machine, from a thread of the test's process."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

START_SECONDS = 10.0


@contextmanager
def served(app: ASGIApp, *, listener: socket.socket | None = None) -> Iterator[str]:
    """Yields the origin on 127.0.0.1, on a free port unless `listener` is bound to one."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    configuration = uvicorn.Config(
        app, log_level="error", lifespan="off", ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(configuration)
    thread = Thread(target=server.run, args=([listener],), name="served", daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _wait_until_started(server: uvicorn.Server, thread: Thread) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the server did not start")
        time.sleep(0.005)
