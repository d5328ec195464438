"""The responses for the outcomes of flows."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fastapi.encoders import jsonable_encoder
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from fastapi_oidc.errors import Code
from fastapi_oidc.flows.callback import LoginRefused, SignedIn
from fastapi_oidc.web.browser.script import SCRIPT
from fastapi_oidc.web.browser.silent_page import SilentPage
from fastapi_oidc.web.headers import NO_STORE, UNREFERRED


def redirect(location: str, *, after_post: bool = False) -> Response:
    """Redirect the browser to `location`; after a POST with a GET (303, RFC 9700 4.12)."""
    return RedirectResponse(location, 303 if after_post else 302, headers=UNREFERRED)


def not_stored(content: object) -> Response:
    """JSON about one user, which caches must not store."""
    return JSONResponse(jsonable_encoder(content), headers=NO_STORE)


def silent_answer(outcome: SignedIn[Any] | LoginRefused) -> Response:
    """The page that posts the outcome of a silent login to the iframe's parent."""
    if isinstance(outcome, SignedIn):
        return _silent(SilentPage("same_user"))
    return silent_refusal(outcome.error.code)


def silent_refusal(code: Code) -> Response:
    """The page for a silent login that failed before its callback."""
    other = code is Code.AUTHORIZATION_OTHER_USER
    return _silent(SilentPage("other_user" if other else "error", str(code)))


def framed_by(issuer: str) -> Response:
    """An empty page that only the provider's origin can frame."""
    url = urlsplit(issuer)
    policy = f"default-src 'none'; frame-ancestors {url.scheme}://{url.netloc}"
    return HTMLResponse("", headers=NO_STORE | {"Content-Security-Policy": policy})


def is_in_iframe(connection: HTTPConnection) -> bool:
    """Whether the browser shows the response in an iframe (Fetch Metadata)."""
    return connection.headers.get("sec-fetch-dest") == "iframe"


def script(connection: HTTPConnection) -> Response:
    """The browser component, or 304 for a browser that has this version (RFC 9110 13.1.2)."""
    headers = SCRIPT.headers(connection.query_params.get("v"))
    known = connection.headers.get("if-none-match", "")
    if SCRIPT.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(SCRIPT.content, media_type=SCRIPT.media_type, headers=headers)


def _silent(page: SilentPage) -> Response:
    return Response(page.body, headers=page.headers)
