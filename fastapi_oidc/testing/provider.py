"""`DevProvider`: an OpenID Provider in the process of a test or a demo."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from fastapi_oidc.clock import Clock
from fastapi_oidc.installation import extra
from fastapi_oidc.session.model import Tokens
from fastapi_oidc.testing.app import provider_app
from fastapi_oidc.testing.direct import access_token_of, tokens_of
from fastapi_oidc.testing.faults import Edits, Faults
from fastapi_oidc.testing.keys import SigningKeys
from fastapi_oidc.testing.record import Record
from fastapi_oidc.testing.registration import DevClient, DevResource, DevUser
from fastapi_oidc.testing.sessions import end_session
from fastapi_oidc.testing.state import Lifetimes, ProviderState
from fastapi_oidc.web.misuse import require_kind

if TYPE_CHECKING:
    import uvicorn
    from starlette.testclient import TestClient

START_TIMEOUT = 10.0
_logger = logging.getLogger(__name__)


@contextmanager
def serving(op: ProviderState, app: ASGIApp, *, port: int) -> Iterator[str]:
    """Serve `app` on 127.0.0.1 and make that address the issuer."""
    server = _server(app)
    listener = socket.create_server(("127.0.0.1", port))
    # Accepted connections inherit it. Otherwise each body would wait for the head's
    # acknowledgement.
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
    """A server that does not change the process's logging."""
    with extra("testing", "DevProvider on a socket needs"):
        import uvicorn
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


class DevProvider:
    """An OpenID Provider for development: strict with clients, without passwords for users.

    `app` is its ASGI application at `issuer`; `serve()` serves it on a local socket instead.
    `record` lists events, `faults` lets endpoints fail and `edits` changes the provider's messages.
    Tokens can be requested for `resources` only. The `acr` of a sign-in is the first of
    `acr_values`, unless the client requests others of them.
    """

    def __init__(
        self,
        *,
        users: Iterable[DevUser],
        clients: Iterable[DevClient],
        issuer: str = "https://op.test",
        clock: Clock | None = None,
        lifetimes: Lifetimes | None = None,
        resources: Iterable[DevResource] = (),
        acr_values: Sequence[str] = (),
    ) -> None:
        users, clients = tuple(users), tuple(clients)
        for given, kind in ((users, DevUser), (clients, DevClient)):
            for each in given:
                require_kind(f"each of the {kind.__name__}s of a DevProvider", each, kind)
        by_id = {client.client_id: client for client in clients}
        self._state = ProviderState(
            issuer=issuer,
            users={user.sub: user for user in users},
            clients=by_id,
            keys=SigningKeys(_algorithms(by_id.values())),
            clock=clock or Clock(),
            lifetimes=lifetimes or Lifetimes(),
            resources={resource.identifier: resource for resource in resources},
            acr_values=tuple(acr_values),
        )
        self.app: Starlette = provider_app(self._state)

    @property
    def issuer(self) -> str:
        """The issuer that was passed or, once served, the socket's address with the same path."""
        return self._state.issuer

    @property
    def record(self) -> Record:
        """All events, and the number of calls of each endpoint."""
        return self._state.record

    @property
    def faults(self) -> Faults:
        """Failures for the next requests."""
        return self._state.faults

    @property
    def edits(self) -> Edits:
        """Changes to the provider's messages."""
        return self._state.edits

    @property
    def dpop_nonce(self) -> str | None:
        """The nonce that proofs must have (RFC 9449 8 and 9); None requires none."""
        return self._state.dpop_nonce

    @dpop_nonce.setter
    def dpop_nonce(self, nonce: str | None) -> None:
        self._state.dpop_nonce = nonce

    @property
    def back_channel_transport(self) -> httpx.AsyncBaseTransport | None:
        """The transport of logout tokens: None is the network, ASGITransport(app) is in-process."""
        return self._state.back_channel_transport

    @back_channel_transport.setter
    def back_channel_transport(self, transport: httpx.AsyncBaseTransport | None) -> None:
        self._state.back_channel_transport = transport

    def serve(self, *, port: int = 0) -> AbstractContextManager[str]:
        """Serve on 127.0.0.1 in a thread while the `with` block runs; it returns the issuer.

        Port 0 is any free port. Raises OSError when the port is taken.
        """
        return serving(self._state, self.app, port=port)

    def browser(self, app: ASGIApp, *, base_url: str) -> httpx.AsyncClient:
        """A client that reaches `app` at `base_url` and this provider, without sockets."""
        return httpx.AsyncClient(
            base_url=base_url,
            transport=httpx.ASGITransport(app),
            mounts={self.issuer: httpx.ASGITransport(self.app)},
            follow_redirects=True,
        )

    def test_client(self, app: ASGIApp, *, base_url: str) -> TestClient:
        """Starlette's `TestClient`, which reaches `app` at `base_url` and this provider.

        Use it in a `with` block: the application's lifespan runs, and every request has one event
        loop. `websocket_connect` takes a path too.
        """
        from fastapi_oidc.testing.websockets import PathClient

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            host = dict(scope.get("headers", ())).get(b"host", b"").decode("latin-1")
            is_own = host == urlsplit(self.issuer).netloc
            await (self.app if is_own else app)(scope, receive, send)

        return PathClient(both, base_url=base_url)

    def access_token(
        self,
        user: str,
        *,
        audience: str,
        scope: str | Sequence[str] = (),
        client_id: str | None = None,
    ) -> str:
        """An access token of `user` for the API `audience`, without a login.

        The token is a JWT (RFC 9068) of the client "test-client", or has the format of the client
        `client_id`. Raises ValueError for an unknown user or client.
        """
        return access_token_of(self._state, user, audience, scope, client_id)

    def tokens(self, user: str, *, client_id: str, scope: str | Sequence[str] = "openid") -> Tokens:
        """The tokens of a login of `user` at `client_id`, for `session_for(..., tokens=...)`.

        Raises ValueError for an unknown user or client.
        """
        return tokens_of(self._state, user, client_id, scope)

    def rotate_keys(self) -> None:
        """Replace every signing key and its `kid`."""
        self._state.keys.rotate()

    async def log_out(self, sub: str) -> None:
        """End all sessions of a user, and wait until the clients have received logout tokens."""
        for session in self._state.sessions.of_user(sub):
            await end_session(self._state, session, client_id=None)


def _algorithms(clients: Iterable[DevClient]) -> frozenset[str]:
    """The clients' algorithms, and RS256, which every relying party must support (Core 15.1)."""
    return frozenset({"RS256"}).union(*(client.signing_algorithms for client in clients))
