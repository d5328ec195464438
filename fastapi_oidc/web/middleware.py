"""Loads the session before a request and sends cookie changes with its response."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import Any
from weakref import ref

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastapi_oidc.errors import Code, ConfigurationError, OIDCError, misconfigured
from fastapi_oidc.web.checks import report
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.misuse import SCOPE_KEY, require_kind
from fastapi_oidc.web.refusals import response_to
from fastapi_oidc.web.routes import OwnRoutes
from fastapi_oidc.web.runtime import Unread
from fastapi_oidc.web.serving import Serving, of_this_task

_log = logging.getLogger("fastapi_oidc.configuration")

_TOO_EARLY = (
    "in a middleware that was added after OIDCMiddleware and runs before it: add OIDCMiddleware "
    "last"
)
_OWN_COOKIE = (
    "the response sets the session cookie itself, which ends no session: to sign out, call "
    "oidc.clear_session(request), or post to the logout route"
)
_NO_LIFESPAN = (
    "The lifespan of this application does not run, because it is mounted, or because its server "
    "or TestClient (without `with`) runs none: at shutdown nothing waits for token requests that "
    "were sent, and their refresh tokens are lost.\n"
    "Call where the outermost application ends: await oidc.aclose()\n"
    "If a middleware misses request.state.oidc, it is outside: add OIDCMiddleware last."
)
_CACHE_CONTROL, _SET_COOKIE = b"cache-control", b"set-cookie"
_VARY = (b"vary", b"Cookie")
_STARTS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
_ENDS = ("lifespan.shutdown.complete", "lifespan.shutdown.failed")


class OIDCMiddleware:
    """Fills `request.state.oidc` with `OIDCLocals` for every HTTP request and websocket.

    The state attribute has the instance's name. Sessions are not loaded for the library's own
    routes and for the path prefixes in `exclude` ("/static" covers "/static" and "/static/..."):
    there nobody can read the locals of a browser with a session cookie until a dependency needs
    them.

    Cookies are sent with the response of an endpoint, stream or error handler, or with the
    acceptance of a websocket. A request that raises another error gets its response outside of all
    middlewares, without cookies. The middleware turns an OIDCError that the application does not
    handle into a response, and likewise an HTTPException of `load_request_data`.
    """

    def __init__(
        self, app: ASGIApp, oidc: Serving[Any, Any], *, exclude: Iterable[str] = ()
    ) -> None:
        require_kind("oidc of OIDCMiddleware", oidc, Serving)
        self._registrations, self._engine = oidc.registrations, oidc.registrations.engine
        self._exclude, self._app = tuple(exclude), app
        self._has_lifespan = self._is_checked = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, websocket or lifespan (ASGI 3)."""
        if scope["type"] not in ("http", "websocket"):
            live = self._live if scope["type"] == "lifespan" else self._app
            await live(scope, receive, send)
            return
        outer: RequestContext | None = scope.get(SCOPE_KEY)
        self._prepare(scope, outer)
        context = await self._context(scope, outer)
        scope[SCOPE_KEY] = context
        response = _Response(context, send, writes=context is not outer)
        before = of_this_task.set((ref(context), ref(context.outermost)))
        try:
            if context is not outer:
                await context.load()
            await self._app(scope, receive, response.send)
            # The context refers to the scope. Without this cycle both are freed immediately, with
            # the tokens in them, and not by a later garbage collection.
            scope[SCOPE_KEY] = outer
        except (OIDCError, HTTPException) as error:
            # The innermost middleware handles the error first. Its response passes all others,
            # which add their cookies. The instance that refused writes the response. FastAPI
            # handles the HTTPExceptions of endpoints: another one is from load_request_data.
            owner = context.find(getattr(error, "instance", None))
            is_refused = isinstance(error, OIDCError)
            # The traceback of a ConfigurationError is for the developer.
            is_a_mistake = isinstance(error, ConfigurationError)
            is_closable = is_refused and response.is_open_socket and not is_a_mistake
            if (response.started and not is_closable) or (is_refused and not owner.is_served):
                raise
            if is_a_mistake:
                context.faults()  # told by this error, whose response they must not refuse
            refusal = await response_to(owner, error)
            await refusal(scope, receive, response.send)
        except Exception as error:
            for fault in context.faults():
                error.add_note(fault)  # such as a response that is a coroutine
            raise
        finally:
            of_this_task.reset(before)
            if context is not outer:
                context.is_open, context.is_over = False, True
                context.end_cleared()
                for fault in context.faults():  # after the response had begun
                    _log.error("%s.", fault)

    async def _context(self, scope: Scope, outer: RequestContext | None) -> RequestContext:
        """A new context; `outer` if the middleware of the same instance is around this one."""
        if outer is not None and outer.serves(self._engine):
            outer.app = scope["app"]
            return outer
        found = self._registrations
        runtime = found.fixed or await found.serving(HTTPConnection(scope))
        return RequestContext(self._engine, runtime, self._routes, scope, outer)

    def _prepare(self, scope: Scope, outer: RequestContext | None) -> None:
        """Check the application; `outer` is the context of an outer OIDCMiddleware."""
        if "app" not in scope:
            raise ConfigurationError(
                Code.CONFIGURATION_MIDDLEWARE_MISSING,
                "OIDCMiddleware wraps the app, but must be inside it: app.add_middleware(...)",
            )
        is_mounted = "app_root_path" in scope
        if not self._is_checked:  # no lifespan; after a failure, at each request
            self._check(scope["app"], is_mounted=is_mounted)
        # Without `state` the server says that it has no lifespans (ASGI 3.0, "Lifespan State"), as
        # transports of tests do.
        if outer is None and not self._has_lifespan and (is_mounted or "state" in scope):
            self._has_lifespan = True  # only one warning
            _log.warning(_NO_LIFESPAN)

    def _check(self, app: Any, *, is_mounted: bool = False) -> None:
        self._routes = OwnRoutes(app, self._engine.name, _excluded(self._exclude))
        report(app, self._routes, self._engine, self._registrations.fixed, is_mounted=is_mounted)
        self._is_checked = True

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the app's lifespan.

        After startup, when all routes are mounted, the application is checked. Connections to
        providers and stores are closed before the end of the shutdown is sent, after which a server
        stops everything.
        """
        self._has_lifespan = True
        if "state" in scope:  # servers copy it into each request (ASGI 3.0, "Lifespan State")
            scope["state"][self._engine.name] = Unread(self._engine.name, _TOO_EARLY)

        async def observed(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete" and "app" in scope:
                self._check(scope["app"])
            elif message["type"] in _ENDS:
                await self._engine.aclose()
            await send(message)

        await self._app(scope, receive, observed)


def _excluded(prefixes: tuple[str, ...]) -> tuple[str, ...]:
    """The prefixes with a trailing slash; ConfigurationError for one without a leading slash.

    Not in the constructor, which runs in the lifespan: servers would take its error for an
    application without one, and start.
    """
    # Those of a string are its characters, and one of them is no prefix.
    if any(each[:1] != "/" or not each.strip("/") or "*" in each for each in prefixes):
        raise misconfigured(
            'exclude is a list of path prefixes that begin with a slash, as in ["/static"], which '
            'covers what is below; "/" would exclude every page'
        )
    return tuple(prefix.rstrip("/") + "/" for prefix in prefixes)


class _Response:
    """Adds the cookie changes to the first message of a response, if it `writes` them."""

    def __init__(self, context: RequestContext, send: Send, *, writes: bool) -> None:
        self._context, self._send, self._writes = context, send, writes
        self.started = self.is_open_socket = False

    async def send(self, message: Message) -> None:
        """Send `message`, the first one with the cookies."""
        if message["type"] in _STARTS:
            status = message.get("status", 0)
            # A handler, of the application or this library, answers while its error is handled.
            is_refusal = isinstance(sys.exception(), OIDCError | HTTPException)
            self._context.require_used(lets_in=status < 400 and not is_refusal)
            self._require_no_own_cookie(message)
            self.started = True
            if self._writes:
                self._context.is_open = False
                await self._add_headers(message)
        elif message["type"] == "websocket.close":
            self.started = True
        if message["type"].startswith("websocket."):
            self.is_open_socket = message["type"] in ("websocket.accept", "websocket.send")
        await self._send(message)

    def _require_no_own_cookie(self, message: Message) -> None:
        """Raise ConfigurationError for a session cookie that the application sets or deletes."""
        for name, value in message.get("headers", ()):
            if name.lower() == _SET_COOKIE and self._context.is_own_cookie(value):
                raise misconfigured(_OWN_COOKIE)

    async def _add_headers(self, message: Message) -> None:
        context, headers = self._context, list(message.get("headers", ()))
        is_personal = context.known is not None and context.known.session is not None
        changes = await context.take_changes() if context.has_changes else ()
        if context.depends_on_cookies and _VARY not in headers:
            headers.append(_VARY)
        if changes:
            # A cache that stored this response would send the cookies to other users.
            headers = [header for header in headers if header[0].lower() != _CACHE_CONTROL]
            headers.append((_CACHE_CONTROL, b"no-store"))
            headers += [(_SET_COOKIE, change.header_value().encode()) for change in changes]
        elif is_personal:
            if context.is_guarded or context.is_at_own_route:
                headers = [
                    (name, value)
                    for name, value in headers
                    if name.lower() != _CACHE_CONTROL or not _is_for_others(value)
                ]
            if all(name.lower() != _CACHE_CONTROL for name, _ in headers):
                headers.append((_CACHE_CONTROL, b"private"))
        message["headers"] = headers


def _is_for_others(caching: bytes) -> bool:
    """Whether a shared cache would keep the response (RFC 9111 5.2.2.9 and 5.2.2.10)."""
    return b"public" in caching.lower() or b"s-maxage" in caching.lower()
