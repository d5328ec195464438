"""The one place that turns an error into a response: a page, JSON, a redirect or a close."""

from __future__ import annotations

import logging
import secrets
from dataclasses import replace
from http import HTTPStatus
from types import NoneType
from typing import Final
from urllib.parse import urlencode

from fastapi.exception_handlers import http_exception_handler
from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp
from starlette.websockets import WebSocketClose

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.protocol.access_token import StepUp
from fastapi_oidc.protocol.urls import same_origin_path
from fastapi_oidc.web.access_tokens import AccessTokenError
from fastapi_oidc.web.application import advise_on_refusal
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.misuse import require_kind
from fastapi_oidc.web.pages import NO_STORE, UNREFERRED, Page
from fastapi_oidc.web.requests import requested_path
from fastapi_oidc.web.routes import Role

RETRY_AFTER: Final = range(5, 11)
"""The `Retry-After`, in seconds, while a store is down or busy: not all clients return at once."""

FIRST_VISITS: Final = (Code.SESSION_REQUIRED, Code.ACCESS_TOKEN_REQUIRED)
"""The refusals of who has no session and no token: no guard has let them in before."""

_NO_LOGIN_HELPS: Final = (
    Code.SESSION_FORBIDDEN,
    Code.SESSION_CROSS_SITE,
    Code.SESSION_CSRF,
    Code.SESSION_COOKIE_TOO_LARGE,
)
_POLICY_VIOLATION, _INTERNAL_ERROR = 1008, 1011
_RELOAD: Final = (
    "Sign in again in a new tab. Then come back to this page and reload it: your browser sends the "
    "form again."
)

_log = logging.getLogger("fastapi_oidc.request")


class SignInRequired(SessionError):
    """A guard found no session. Only this error redirects to a login automatically.

    A login can raise the other errors itself, so redirecting them could loop forever. `challenge`
    is added to the `WWW-Authenticate` header.
    """

    challenge: str = ""


class StepUpRequired(SessionError):
    """A guard found a session whose authentication does not satisfy `step_up` (RFC 9470).

    It leads to a login, which fails unless the new authentication satisfies `step_up`.
    """

    def __init__(self, step_up: StepUp) -> None:
        explanation = f"the guard requires {step_up.parameters()}"
        super().__init__(Code.SESSION_STEP_UP_REQUIRED, explanation)
        self.step_up = step_up


async def response_to(context: RequestContext, error: OIDCError | HTTPException) -> ASGIApp:
    """The response, announced once: a page for navigations, JSON for scripts.

    Navigations without a session go to the login. A websocket is closed (RFC 6455 7.4.1).
    """
    if isinstance(error, OIDCError):
        announce_refusal(context, error)
    if context.scope["type"] == "websocket":
        status = error.status if isinstance(error, OIDCError) else error.status_code
        is_ours = status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return WebSocketClose(_INTERNAL_ERROR if is_ours else _POLICY_VIOLATION)
    if isinstance(error, HTTPException):
        return await http_exception_handler(Request(context.scope), error)
    advise_on_refusal(context, error.code)
    if isinstance(error, AccessTokenError) or not is_navigation(context.connection):
        return _json(context, error)
    can_return = _is_read(context) and not context.is_at_own_route
    if isinstance(error, SignInRequired | StepUpRequired) and can_return:
        return RedirectResponse(_login_url(context, error), 302, headers=UNREFERRED)
    response = await shown(context, _page(context, error))
    response.headers.update(_headers(context, error))
    return response


def announce_refusal(context: RequestContext, error: OIDCError) -> None:
    """Announce one event for each refusal, except first visits without a session or token.

    The refusal of a websocket is always announced: its client learns no cause.
    """
    is_websocket = context.scope["type"] == "websocket"
    if is_websocket:
        # The query may have a token, and need not be UTF-8, as Starlette expects.
        error.details["websocket"] = URL(scope={**context.scope, "query_string": b""})
    if (is_websocket or error.code not in FIRST_VISITS) and not error.is_announced:
        session = context.known.session if context.known else None
        party = context.party.serving(session) if session else None
        announcer = party.announcer if party else context.party.sessions.announcer
        announcer.announce(EventName.REQUEST_REFUSED, error)


def is_navigation(connection: HTTPConnection) -> bool:
    """Whether a browser shows the response as a page (by Fetch Metadata, else Accept)."""
    mode = connection.headers.get("sec-fetch-mode")
    if mode is not None:
        return mode == "navigate"
    return "text/html" in connection.headers.get("accept", "")


async def shown(context: RequestContext, page: Page) -> Response:
    """The response of `render_page`, or else the library's page. An exception is logged."""
    render, response = context.engine.render_page, None
    try:
        if render is not None:
            response = await called(render, Request(context.scope), page)
            require_kind("the result of render_page", response, Response, NoneType)
    except Exception:
        response = None
        _log.exception("render_page raised for a page of kind %s", page.kind)
    return response or page.response()


def _json(context: RequestContext, error: OIDCError) -> Response:
    content = {"detail": error.public_text, "code": str(error.code)}
    if ended := error.details.get("ended"):
        content["ended"] = str(ended)
    return JSONResponse(content, error.status, headers=_headers(context, error))


def _headers(context: RequestContext, error: OIDCError) -> dict[str, str]:
    """The headers of a refusal, with a link to its code in the documentation (RFC 8288).

    A 401 has `WWW-Authenticate` (RFC 9110 11.6.1), by default for the cookie of a login. A 503 has
    `Retry-After` in seconds (10.2.3).
    """
    headers = NO_STORE | help_of(error.code)
    if isinstance(error, AccessTokenError):
        headers |= {"WWW-Authenticate": error.challenge} if error.challenge else {}
    elif isinstance(error, StepUpRequired):
        headers["WWW-Authenticate"] = error.step_up.challenge()
    elif error.status is HTTPStatus.UNAUTHORIZED:
        cookie = context.party.sessions.names.session
        headers["WWW-Authenticate"] = f'Cookie realm="{context.name}", cookie-name="{cookie}"'
        if isinstance(error, SignInRequired) and error.challenge:
            headers["WWW-Authenticate"] += f", {error.challenge}"
    if error.status is HTTPStatus.SERVICE_UNAVAILABLE:
        seconds = error.details.get("retry_after") or secrets.choice(RETRY_AFTER)
        headers["Retry-After"] = str(seconds)
    return headers


def help_of(code: Code) -> dict[str, str]:
    """The header that leads to the code's explanation (RFC 8288)."""
    return {"Link": f'<{code.link}>; rel="help"'}


def _is_read(context: RequestContext) -> bool:
    """Whether a link can repeat the request."""
    return context.scope["method"] in ("GET", "HEAD")


def _login_url(context: RequestContext, error: OIDCError) -> str:
    """The URL of the login route, with the requested page to return to."""
    more = error.step_up.parameters() if isinstance(error, StepUpRequired) else {}
    query = {"return_to": requested_path(context.connection)} | more
    return f"{context.link_to(Role.LOGIN)}?{urlencode(query)}"


def _page(context: RequestContext, error: OIDCError) -> Page:
    """The page about `error`. It offers to try again, to sign in, or to go to the start page."""
    heading, _, text = error.public_text.partition(". ")
    start = context.party.settings.default_return_path
    page = Page(
        kind="refused",
        status=error.status,
        heading=heading.removesuffix("."),
        text=text,
        action="Go to the start page",
        href=start,
        code=str(error.code),
    )
    if context.path_to(Role.LOGIN) is not None and _can_login_help(error):
        action = "Sign in" if error.code is Code.SESSION_REQUIRED else "Sign in again"
        page = replace(page, action=action, href=context.link_to(Role.LOGIN))
        if isinstance(error, StepUpRequired):
            href = f"{page.href}?{urlencode(error.step_up.parameters())}"
            return replace(page, kind="step_up", text=_RELOAD, href=href)
    is_login = context.path == context.path_to(Role.LOGIN)
    can_repeat = _is_read(context) and (is_login or not context.is_at_own_route)
    if error.status >= HTTPStatus.BAD_GATEWAY and can_repeat:
        # A browser would read some paths as URLs of another origin.
        again = same_origin_path(requested_path(context.connection), default=start)
        page = replace(page, other_action=page.action, other_href=page.href)
        return replace(page, action="Try again", href=again)
    return page


def _can_login_help(error: OIDCError) -> bool:
    """Whether who signs in again may pass: the operator corrects a configuration."""
    return not (error.code.startswith("configuration.") or error.code in _NO_LOGIN_HELPS)
