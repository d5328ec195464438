"""The console on a socket, from a thread of this process: for tests and screenshots."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final, TypeVar

import uvicorn
from fastapi import FastAPI

START_SECONDS: Final = 10.0
Answer = TypeVar("Answer")


class Server(uvicorn.Server):
    """Leaves no connection open, also when a response does not end in time."""

    loop: asyncio.AbstractEventLoop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)

    def do(self, work: Coroutine[object, object, Answer]) -> Answer:
        """The result of `work`, which is done beside the requests."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)


@contextmanager
def serving(app: FastAPI, listener: socket.socket) -> Iterator[Server]:
    """`app` answers on `listener` while the block runs."""
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none")
    server = Server(config)
    thread = Thread(target=server.run, args=([listener],), name="console", daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield server
    finally:
        server.should_exit = True
        thread.join()


def _wait_until_started(server: uvicorn.Server, thread: Thread) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the console did not start")
        time.sleep(0.005)
