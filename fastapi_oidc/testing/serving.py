"""Putting a provider on a socket, from a thread of this process."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from fastapi_oidc.testing.state import ProviderState

if TYPE_CHECKING:
    import uvicorn

START_TIMEOUT = 10.0
_logger = logging.getLogger(__name__)


@contextmanager
def serving(op: ProviderState, app: ASGIApp, *, port: int) -> Iterator[str]:
    """Serves `app` on 127.0.0.1 and makes that address the issuer."""
    server = _server(app)
    listener = socket.create_server(("127.0.0.1", port))
    # Inherited by what it accepts: else each answer's body waits for the head's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    path = urlsplit(op.issuer).path.rstrip("/")
    op.issuer = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
    thread = Thread(target=server.run, args=([listener],), name="DevProvider", daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        _logger.warning("DevProvider at %s is for DEVELOPMENT ONLY: no passwords", op.issuer)
        yield op.issuer
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _server(app: ASGIApp) -> uvicorn.Server:
    """A server that leaves the logging of its process alone."""
    try:
        import uvicorn
    except ModuleNotFoundError as missing:
        explanation = "DevProvider on a socket needs: pip install 'fastapi-oidc-vmm[testing]'"
        raise ModuleNotFoundError(explanation, name=missing.name) from None
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
    )


def _wait_until_started(server: uvicorn.Server, thread: Thread) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("DevProvider did not start")
        time.sleep(0.005)
