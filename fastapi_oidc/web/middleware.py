"""The one writer of cookies: loads the session before a request, and sends the changes with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastapi_oidc.errors import OIDCError
from fastapi_oidc.web.exchange import SCOPE_KEY, Exchange, OIDCLocals
from fastapi_oidc.web.refusal import announce_refusal, refusal_response, websocket_close_code
from fastapi_oidc.web.routes import RoutePaths
from fastapi_oidc.web.site import Instance

_NOBODY: OIDCLocals[Any, Any] = OIDCLocals()


class OIDCMiddleware:
    """Fills `request.state.oidc` with `OIDCLocals` for every HTTP request and websocket.

    The state attribute has the instance's name. Left alone are the library's own routes and the
    path prefixes in `exclude` ("/static" covers "/static" and "/static/..."): there the locals stay
    empty until a dependency asks. Cookies go out with the answer, whoever makes it: an endpoint, a
    stream, an error handler, or the acceptance of a websocket. An OIDCError that no handler of the
    application takes is answered here.
    """

    def __init__(
        self, app: ASGIApp, oidc: Instance[Any, Any], *, exclude: Iterable[str] = ()
    ) -> None:
        self._app = app
        self._site = oidc.site
        self._excluded = tuple(prefix.rstrip("/") + "/" for prefix in exclude)
        self._paths: dict[str, RoutePaths] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, websocket or lifespan (ASGI 3)."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        exchange = Exchange(self._site, HTTPConnection(scope), self._paths_for(scope))
        scope.setdefault(SCOPE_KEY, {})[self._site.name] = exchange
        answer = _Answer(exchange, send)
        try:
            await self._load(exchange)
            await self._app(scope, receive, answer.send)
            # The exchange knows the scope. Apart, both are freed at once with the tokens in them,
            # and not when the garbage collector comes by.
            del scope[SCOPE_KEY][self._site.name]
        except OIDCError as error:
            if answer.started:
                raise
            announce_refusal(exchange, error)
            await _refuse(exchange, error, receive, answer.send)

    async def _load(self, exchange: Exchange[Any, Any]) -> None:
        state = exchange.connection.scope.setdefault("state", {})
        state[self._site.name] = _NOBODY
        if not self._is_left_alone(exchange):
            state[self._site.name] = await exchange.locals()

    def _is_left_alone(self, exchange: Exchange[Any, Any]) -> bool:
        scope = exchange.connection.scope
        path = scope["path"]
        if path in exchange.paths:
            return True
        path = path.removeprefix(scope.get("root_path", ""))
        return f"{path}/".startswith(self._excluded)

    def _paths_for(self, scope: Scope) -> RoutePaths:
        root_path = scope.get("root_path", "")
        if root_path not in self._paths:
            # One entry per way the app is reached; a server sets very few of them.
            self._paths[root_path] = RoutePaths.of(scope["app"], self._site.name, root_path)
        return self._paths[root_path]


class _Answer:
    """Adds the cookie changes to the first message of an answer."""

    def __init__(self, exchange: Exchange[Any, Any], send: Send) -> None:
        self._exchange, self._send = exchange, send
        self.started = False

    async def send(self, message: Message) -> None:
        """Send `message`, the first one with the cookies."""
        if message["type"] in ("http.response.start", "websocket.accept"):
            self.started = True
            self._add_headers(message)
        elif message["type"] == "websocket.close":
            self.started = True
        await self._send(message)

    def _add_headers(self, message: Message) -> None:
        message["headers"] = [*message.get("headers", ()), (b"vary", b"Cookie")]
        changes = self._exchange.taken_changes()
        if not changes:
            return
        headers = MutableHeaders(scope=message)
        for change in changes:
            headers.append("Set-Cookie", change.header_value())
        # A cache that kept this answer would hand the cookies to somebody else.
        headers["Cache-Control"] = "no-store"


async def _refuse(
    exchange: Exchange[Any, Any], error: OIDCError, receive: Receive, send: Send
) -> None:
    scope = exchange.connection.scope
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": websocket_close_code(error), "reason": ""})
        return
    await refusal_response(exchange, error)(scope, receive, send)
