"""A guest's unix socket: made for its owner alone, and served by uvicorn's HTTP/1.1."""

from __future__ import annotations

import asyncio
import logging
import os
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from anyio import CancelScope
from starlette.types import ASGIApp

from fastapi_oidc.broker.guest import HAS_LEFT
from fastapi_oidc.installation import extra

with extra("broker", "the broker needs"):
    from uvicorn import Config
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import ServerState

MOST_CONNECTIONS: Final = 64
"""Connections of a guest at a time; more are closed."""

IDLE_SECONDS: Final = 120
"""Seconds for which a connection stays open after an answer: longer than HTTP clients keep one
(httpx 5, Go 90, curl 118), or a call could meet its end.
"""

_LOG: Final = logging.getLogger("fastapi_oidc.broker")
"""For faults of the broker alone: what guests and APIs do wrong is in the events of calls. A call
that the end of its server cancels is no fault.
"""
_LOG.addFilter(lambda record: isinstance(record.exc_info and record.exc_info[1], Exception))


class _Connection(H11Protocol):
    """A connection, with the bound that uvicorn does not have."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Also let calls ask whether the guest has left, behind bytes that are not read yet."""
        self.logger, self.access_log = _LOG, False  # the access log would have the query
        super().connection_made(transport)
        looked = select.poll()
        looked.register(transport.get_extra_info("socket"), 0)  # an end is told in any case
        self.app_state = {HAS_LEFT: lambda: transport.is_closing() or bool(looked.poll(0))}
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()


@asynccontextmanager
async def serving(app: ASGIApp, path: str, owner: tuple[int, int] | None) -> AsyncIterator[None]:
    """Serve `app` at `path` within the block, and break off what is under way at its end.

    asyncio replaces a socket that is there, and nobody can connect before `start_serving`.
    """
    config = Config(app, ws="none", log_config=None, timeout_keep_alive=IDLE_SECONDS)
    loop, state = asyncio.get_running_loop(), ServerState()
    server = await loop.create_unix_server(
        lambda: _Connection(config, state, {}), path, start_serving=False
    )
    file = os.lstat(path)
    try:
        _give(path, owner)
        await server.start_serving()  # a cancellation here ends it
        yield
    finally:
        with suppress(FileNotFoundError):
            if os.path.samestat(file, os.lstat(path)):  # else another server has replaced it
                os.unlink(path)
        server.close()
        for connection in [*state.connections]:
            connection.transport.abort()
        for task in state.tasks:
            task.cancel()
        with CancelScope(shield=True):  # of anyio, which cancels each await of its block
            await asyncio.gather(*state.tasks, return_exceptions=True)


def _give(path: str, owner: tuple[int, int] | None) -> None:
    """Let its owner alone open the socket.

    Who owns its folder may have put a link to another file there.
    """
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        itself = Path(f"/proc/self/fd/{found}")
        if not itself.is_socket():
            raise FileExistsError(f"another file has replaced the socket {path}")
        itself.chmod(0o600)
        if owner is not None:
            os.chown(itself, *owner)
    finally:
        os.close(found)
