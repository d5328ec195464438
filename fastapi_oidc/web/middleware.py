"""Loads the session before a request and sends cookie changes with its response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any
from weakref import ref

from fastapi.exception_handlers import http_exception_handler
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastapi_oidc.errors import Code, ConfigurationError, OIDCError
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.web.cors import advise_on_cors, report_cors_inside, with_cors
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.locals import TooEarly
from fastapi_oidc.web.misuse import SCOPE_KEY
from fastapi_oidc.web.overrides import advise_on_overrides
from fastapi_oidc.web.refusal import announce_refusal, refusal_response, websocket_close_code
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.request_contexts import (
    Caching,
    RequestContexts,
    Served,
    of_this_task,
)
from fastapi_oidc.web.route_checks import require_sound_routes
from fastapi_oidc.web.runtime import Instance
from fastapi_oidc.web.startup import (
    report_memory_of_one,
    report_missing_routes,
    report_open_paths,
    watched,
)

_log = logging.getLogger("fastapi_oidc.configuration")

_CACHE_CONTROL = b"cache-control"
_VARY = (b"vary", b"Cookie")
_STARTS = ("http.response.start", "websocket.accept", "websocket.http.response.start")


class OIDCMiddleware:
    """Fills `request.state.oidc` with `OIDCLocals` for every HTTP request and websocket.

    The state attribute has the instance's name. Sessions are not loaded for the library's own
    routes and for the path prefixes in `exclude` ("/static" covers "/static" and "/static/..."):
    there the locals are empty until a dependency needs them.

    Cookies are sent with the response of an endpoint, stream or error handler, or with the
    acceptance of a websocket. A handler for `Exception` runs outside of all middlewares, so its
    responses have no cookies. The middleware turns an OIDCError that the application does not
    handle into a response, and likewise an HTTPException of `load_request_data`.
    """

    def __init__(
        self, app: ASGIApp, oidc: Instance[Any, Any], *, exclude: Iterable[str] = ()
    ) -> None:
        if isinstance(app, Starlette) or not hasattr(oidc, "registrations"):
            given = "" if isinstance(app, Starlette) else f", not {type(oidc).__name__}"
            raise TypeError(
                "OIDCMiddleware is added as a class, with an instance of OIDC or StandaloneAPI"
                f"{given}: app.add_middleware(OIDCMiddleware, oidc=oidc)"
            )
        self._registrations = oidc.registrations
        self._served = Served(oidc.registrations, _excluded(exclude))
        self._names = (self._served.engine.name,)
        self._app, self._has_lifespan, self._is_checked = app, False, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, websocket or lifespan (ASGI 3)."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        outer: RequestContexts | None = scope.get(SCOPE_KEY)
        self._prepare(scope, outer)
        runtime = self._registrations.fixed
        if runtime is None and not (outer is not None and outer.serves(self._served.engine)):
            runtime = await self._registrations.serving(HTTPConnection(scope))
        contexts = scope[SCOPE_KEY] = RequestContexts(self._served, runtime, scope, outer)
        response = _Response(contexts, send)
        _require_asyncio()
        before = of_this_task.set(ref(contexts))
        try:
            await contexts.load()
            await self._app(scope, receive, response.send)
            # The contexts refer to the scope. Without this cycle both are freed immediately, with
            # the tokens in them, and not by a later garbage collection.
            scope[SCOPE_KEY] = outer
        except OIDCError as error:
            if response.started:
                raise
            # The innermost middleware handles the error first. Its response passes all others,
            # which add their cookies. The instance that refused writes the response.
            owner = contexts.owner(error.instance)
            if owner is None:
                raise
            announce_refusal(owner, error)
            await self._refuse(owner, error, receive, response.send)
        except HTTPException as error:
            if response.started:
                raise
            # FastAPI handles HTTPExceptions of endpoints: this one is from load_request_data.
            await self._interrupt(scope, error, receive, response.send)
        except Exception as error:
            for fault in contexts.faults():
                error.add_note(fault)  # such as a response that is a coroutine
            if not response.started and _is_plain(scope) and contexts.has_changes():
                # Starlette would respond outside of all middlewares, and the cookies would be lost.
                plain = PlainTextResponse("Internal Server Error", 500, headers=NO_STORE)
                await plain(scope, receive, response.send)
            raise
        finally:
            contexts.close()
            of_this_task.reset(before)
            contexts.end_cleared()

    async def _refuse(
        self, context: RequestContext[Any, Any], error: OIDCError, receive: Receive, send: Send
    ) -> None:
        scope = context.connection.scope
        if scope["type"] == "websocket":
            await _close(error.status, send)
            return
        advise_on_cors(context)
        advise_on_overrides(context)
        response = await refusal_response(context, error)
        await with_cors(scope["app"], self._names, response)(scope, receive, send)

    async def _interrupt(
        self, scope: Scope, error: HTTPException, receive: Receive, send: Send
    ) -> None:
        if scope["type"] == "websocket":
            await _close(error.status_code, send)
            return
        response = await http_exception_handler(Request(scope), error)
        await with_cors(scope["app"], self._names, response)(scope, receive, send)

    def _prepare(self, scope: Scope, outer: RequestContexts | None) -> None:
        """Check the application; `outer` are the contexts of an outer OIDCMiddleware."""
        if "app" not in scope:
            raise ConfigurationError(
                Code.CONFIGURATION_MIDDLEWARE_MISSING,
                "OIDCMiddleware wraps the app, but must be inside it: app.add_middleware(...)",
            )
        if not self._is_checked:
            self._check(scope)
        # Without `state` the server says that it has no lifespans (ASGI 3.0, "Lifespan State"), as
        # transports of tests do.
        is_mounted = "app_root_path" in scope
        if outer is None and not self._has_lifespan and (is_mounted or "state" in scope):
            self._warn_of_no_lifespan(is_mounted=is_mounted)

    def _warn_of_no_lifespan(self, *, is_mounted: bool) -> None:
        """Warn once: Starlette runs the lifespan of the outermost application only."""
        self._has_lifespan = True  # only one warning
        cause, where = (
            "The server does not run the lifespan of this application",
            "Call at shutdown",
        )
        if is_mounted:
            cause = "This application is mounted, so its lifespan does not run"
            where = "Add to the lifespan of the outer application"
        _log.warning(
            "%s: at shutdown nothing waits for token requests that were sent, and their refresh "
            "tokens are lost.\n%s: await oidc.aclose()",
            cause,
            where,
        )

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the app's lifespan; at shutdown, close the connections to providers and stores."""
        self._has_lifespan = True
        if "state" in scope:  # servers copy it into each request (ASGI 3.0, "Lifespan State")
            scope["state"][self._served.engine.name] = TooEarly(self._served.engine.name)
        look = partial(self._look, scope)
        await self._app(scope, receive, watched(send, look, self._served.engine.aclose))

    def _look(self, scope: Scope) -> None:
        if "app" in scope:
            self._check(scope)
            report_cors_inside(scope["app"], self._names)
            report_open_paths(scope["app"])
            if self._served.engine.signs_in:
                report_missing_routes(*self._names, scope)
            if self._registrations.fixed is not None:
                report_memory_of_one(self._registrations.fixed)
            for api in self._served.engine.apis:
                api.look(scope["app"])

    def _check(self, scope: Scope) -> None:
        """Check the routes at startup or at the first request; after a failure, at each request."""
        require_sound_routes(scope["app"], self._names, self._served.engine.identity_type)
        self._is_checked = True


def _require_asyncio() -> None:
    """Raise ConfigurationError under trio, which anyio's test plugin may use."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        explanation = "fastapi_oidc supports asyncio only, and this is another event loop"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation) from None


def _excluded(prefixes: Iterable[str]) -> tuple[str, ...]:
    """The prefixes with a trailing slash; ConfigurationError for one without a leading slash."""
    # The characters of a string would be taken as prefixes.
    given = () if isinstance(prefixes, str) else tuple(prefixes)
    are_prefixes = all(prefix.startswith("/") and prefix.strip("/") for prefix in given)
    if isinstance(prefixes, str) or not are_prefixes:
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            'exclude is a list of path prefixes that begin with a slash, as in ["/static"]; "/" '
            "would exclude every page",
        )
    return tuple(prefix.rstrip("/") + "/" for prefix in given)


class _Response:
    """Adds the cookie changes to the first message of a response."""

    def __init__(self, contexts: RequestContexts, send: Send) -> None:
        self._contexts, self._send = contexts, send
        self.started = False

    async def send(self, message: Message) -> None:
        """Send `message`, the first one with the cookies."""
        if message["type"] in _STARTS:
            self._contexts.require_used()
            self.started = True
            self._contexts.close()
            has_changes = self._contexts.has_changes()
            changes = await self._contexts.take_changes() if has_changes else ()
            self._add_headers(message, changes)
        elif message["type"] == "websocket.close":
            self.started = True
        await self._send(message)

    def _add_headers(self, message: Message, changes: Sequence[CookieChange]) -> None:
        headers = list(message.get("headers", ()))
        caching = self._contexts.caching()
        if caching is not Caching.ANYBODY:
            headers += [_VARY] if _VARY not in headers else []
        if changes:
            # A cache that stored this response would send the cookies to other users.
            headers = [header for header in headers if header[0].lower() != _CACHE_CONTROL]
            headers.append((_CACHE_CONTROL, b"no-store"))
            headers += [(b"set-cookie", change.header_value().encode()) for change in changes]
        elif caching is Caching.PERSONAL and _CACHE_CONTROL not in [n.lower() for n, _ in headers]:
            headers.append((_CACHE_CONTROL, b"private"))
        message["headers"] = headers


async def _close(status: int, send: Send) -> None:
    await send({"type": "websocket.close", "code": websocket_close_code(status), "reason": ""})


def _is_plain(scope: Scope) -> bool:
    """Whether the app has no handler for `Exception` and no debug mode."""
    app = scope["app"]
    own = app.debug or 500 in app.exception_handlers or Exception in app.exception_handlers
    return scope["type"] == "http" and not own
