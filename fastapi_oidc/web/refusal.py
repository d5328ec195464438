"""What a browser, a script or a websocket is told of an error: a code and a short text."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.flows.events import EventName, refused
from fastapi_oidc.web.exchange import Exchange
from fastapi_oidc.web.requests import requested_path, route_path
from fastapi_oidc.web.routes import Role

_PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_POLICY_VIOLATION, _INTERNAL_ERROR = 1008, 1011


class SignInRequired(SessionError):
    """A guard found no session: the one refusal that leads to a login by itself.

    Any other one could be raised by the login, which would then begin again for ever.
    """


def refusal_response(exchange: Exchange[Any, Any], error: OIDCError) -> Response:
    """A page for a person, JSON for a script; without a session a person is sent to sign in."""
    if not is_navigation(exchange.connection):
        return _json(exchange, error)
    if isinstance(error, SignInRequired) and _is_to_return_to(exchange):
        return RedirectResponse(_login_url(exchange), 302, headers={"Cache-Control": "no-store"})
    return _page(exchange, error)


def is_navigation(connection: HTTPConnection) -> bool:
    """Whether a person's browser shows the answer as a page (Fetch Metadata, else Accept)."""
    mode = connection.headers.get("sec-fetch-mode")
    if mode is not None:
        return mode == "navigate"
    return "text/html" in connection.headers.get("accept", "")


def websocket_close_code(status: int) -> int:
    """RFC 6455 7.4.1: a matter of policy, or a failure on this side."""
    return _POLICY_VIOLATION if status < HTTPStatus.INTERNAL_SERVER_ERROR else _INTERNAL_ERROR


def announce_refusal(exchange: Exchange[Any, Any], error: OIDCError) -> None:
    """Every refusal is an event, but for the ordinary first visit without a session."""
    if error.code is not Code.SESSION_REQUIRED:
        party = exchange.site.party
        party.announcer(refused(EventName.REQUEST_REFUSED, error, party.clock.now()))


def _json(exchange: Exchange[Any, Any], error: OIDCError) -> Response:
    headers = {"Cache-Control": "no-store", **_challenge(exchange, error)}
    content = {"detail": error.public_text, "code": str(error.code)}
    return JSONResponse(content, error.status, headers=headers)


def _challenge(exchange: Exchange[Any, Any], error: OIDCError) -> dict[str, str]:
    """RFC 9110 11.6.1: a 401 says how to authenticate; here by a cookie that a login gives."""
    if error.status is not HTTPStatus.UNAUTHORIZED:
        return {}
    cookie_name = exchange.site.party.names.session
    return {"WWW-Authenticate": f'Cookie realm="{exchange.site.name}", cookie-name="{cookie_name}"'}


def _page(exchange: Exchange[Any, Any], error: OIDCError) -> Response:
    again = ""
    if Role.LOGIN in exchange.paths.paths:
        again = f'<p><a href="{escape(exchange.paths.required(Role.LOGIN))}">Sign in again</a></p>'
    html = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{error.status} {escape(error.status.phrase)}</title>"
        f"<main><h1>{escape(error.public_text)}</h1>{again}"
        f'<p><a href="{escape(exchange.site.party.policy.default_return_path)}">Go on</a></p>'
        f"<p><small>{escape(error.code)}</small></p></main></html>"
    )
    return HTMLResponse(html, error.status, headers=_PAGE_HEADERS | _challenge(exchange, error))


def _is_to_return_to(exchange: Exchange[Any, Any]) -> bool:
    """Whether a login can come back to this request; to a route of the library it cannot."""
    scope = exchange.connection.scope
    return scope["method"] in ("GET", "HEAD") and route_path(scope) not in exchange.paths


def _login_url(exchange: Exchange[Any, Any]) -> str:
    """The login route, to come back to where the person wanted to go."""
    return_to = urlencode({"return_to": requested_path(exchange.connection)})
    return f"{exchange.paths.required(Role.LOGIN)}?{return_to}"
