"""The one writer of cookies: loads the session before a request, and sends the changes with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi.exception_handlers import http_exception_handler
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastapi_oidc.errors import Code, ConfigurationError, OIDCError
from fastapi_oidc.web.exchange import SCOPE_KEY, Exchange, OIDCLocals
from fastapi_oidc.web.refusal import announce_refusal, refusal_response, websocket_close_code
from fastapi_oidc.web.requests import route_path
from fastapi_oidc.web.routes import Role, RoutePaths, mounted_paths
from fastapi_oidc.web.site import Instance

_NOBODY: OIDCLocals[Any, Any] = OIDCLocals()

_STARTS = ("http.response.start", "websocket.accept", "websocket.http.response.start")


class OIDCMiddleware:
    """Fills `request.state.oidc` with `OIDCLocals` for every HTTP request and websocket.

    The state attribute has the instance's name. Left alone are the library's own routes and the
    path prefixes in `exclude` ("/static" covers "/static" and "/static/..."): there the locals stay
    empty until a dependency asks. Cookies go out with the answer, whoever makes it: an endpoint, a
    stream, an error handler (one for `Exception` excepted, which runs outside of every middleware),
    or the acceptance of a websocket. An OIDCError that no handler of the application takes is
    answered here, and so is an HTTPException of `load_request_data`.
    """

    def __init__(
        self, app: ASGIApp, oidc: Instance[Any, Any], *, exclude: Iterable[str] = ()
    ) -> None:
        if isinstance(exclude, str):
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID, "exclude is a list of path prefixes, not a text"
            )
        self._app = app
        self._site = oidc.site
        self._excluded = tuple(prefix.rstrip("/") + "/" for prefix in exclude)
        self._paths: RoutePaths | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, websocket or lifespan (ASGI 3)."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket") or self._is_inside_itself(scope):
            await self._app(scope, receive, send)
            return
        exchange = Exchange(self._site, HTTPConnection(scope), self._paths_for(scope))
        scope[SCOPE_KEY][self._site.name] = exchange
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
            # The innermost middleware is here first, and its answer passes all the others, which
            # add their cookies; what is said is up to the instance that refused.
            owner = scope[SCOPE_KEY].get(error.instance, exchange)
            announce_refusal(owner, error)
            await _refuse(owner, error, receive, answer.send)
        except HTTPException as error:
            if answer.started:
                raise
            # What endpoints raise is answered further inside: this is from load_request_data.
            await _interrupt(exchange, error, receive, answer.send)
        except Exception:
            if exchange.has_changes and not answer.started and _is_plain(scope):
                # Starlette answers outside of every middleware, and the cookies would be lost.
                await PlainTextResponse("Internal Server Error", 500)(scope, receive, answer.send)
            raise

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The app's life; at its end the connections to the provider are closed."""
        try:
            await self._app(scope, receive, send)
        finally:
            await self._site.party.provider.aclose()

    async def _load(self, exchange: Exchange[Any, Any]) -> None:
        state = exchange.connection.scope.setdefault("state", {})
        state[self._site.name] = _NOBODY
        if not self._is_left_alone(exchange):
            state[self._site.name] = await exchange.locals()

    def _is_inside_itself(self, scope: Scope) -> bool:
        """Whether an outer app serves this instance already; then it writes the cookies."""
        outer = scope.setdefault(SCOPE_KEY, {}).get(self._site.name)
        if outer is None:
            return False
        if outer.site is not self._site:
            raise ConfigurationError(
                Code.CONFIGURATION_INSTANCE_AMBIGUOUS,
                f"two OIDC instances are named {self._site.name!r}; give each a name of its own",
            )
        return True

    def _is_left_alone(self, exchange: Exchange[Any, Any]) -> bool:
        path = route_path(exchange.connection.scope)
        return path in exchange.paths or f"{path}/".startswith(self._excluded)

    def _paths_for(self, scope: Scope) -> RoutePaths:
        root_path = scope.get("root_path", "")
        if self._paths is None or self._paths.root_path != root_path:
            self._paths = RoutePaths(self._mounted_paths(scope), root_path)
        return self._paths

    def _mounted_paths(self, scope: Scope) -> Mapping[Role, str]:
        if self._paths is not None:
            return self._paths.paths
        if "app" not in scope:
            raise ConfigurationError(
                Code.CONFIGURATION_MIDDLEWARE_MISSING,
                "OIDCMiddleware is around the app; it belongs inside: app.add_middleware(...)",
            )
        return mounted_paths(scope["app"], self._site.name)


class _Answer:
    """Adds the cookie changes to the first message of an answer."""

    def __init__(self, exchange: Exchange[Any, Any], send: Send) -> None:
        self._exchange, self._send = exchange, send
        self.started = False

    async def send(self, message: Message) -> None:
        """Send `message`, the first one with the cookies."""
        if message["type"] in _STARTS:
            self.started = True
            self._add_headers(message)
        elif message["type"] == "websocket.close":
            self.started = True
        await self._send(message)

    def _add_headers(self, message: Message) -> None:
        if self._exchange.is_loaded:
            message["headers"] = [*message.get("headers", ()), (b"vary", b"Cookie")]
        if not self._exchange.has_changes:
            return
        message.setdefault("headers", ())
        headers = MutableHeaders(scope=message)
        for change in self._exchange.taken_changes():
            headers.append("Set-Cookie", change.header_value())
        # A cache that kept this answer would hand the cookies to somebody else.
        headers["Cache-Control"] = "no-store"


async def _refuse(
    exchange: Exchange[Any, Any], error: OIDCError, receive: Receive, send: Send
) -> None:
    scope = exchange.connection.scope
    if scope["type"] == "websocket":
        await _close(error.status, send)
        return
    await refusal_response(exchange, error)(scope, receive, send)


async def _interrupt(
    exchange: Exchange[Any, Any], error: HTTPException, receive: Receive, send: Send
) -> None:
    scope = exchange.connection.scope
    if scope["type"] == "websocket":
        await _close(error.status_code, send)
        return
    response = await http_exception_handler(Request(scope), error)
    await response(scope, receive, send)


async def _close(status: int, send: Send) -> None:
    await send({"type": "websocket.close", "code": websocket_close_code(status), "reason": ""})


def _is_plain(scope: Scope) -> bool:
    """Whether the app has no answer of its own for an exception that nobody takes."""
    app = scope["app"]
    own = app.debug or 500 in app.exception_handlers or Exception in app.exception_handlers
    return scope["type"] == "http" and not own
