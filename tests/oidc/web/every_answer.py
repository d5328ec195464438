"""Requests for each answer of `response_headers.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fastapi_oidc.testing import ServerError
from fastapi_oidc.web.browser.script import SCRIPT
from fastapi_oidc.web.headers import MOST_ESCAPES
from fastapi_oidc.web.requests import MAX_FIELDS
from tests.oidc.web.asking import (
    FORM_POST,
    IFRAME,
    PAGE,
    SILENT,
    SLOW,
    UNREACHABLE,
    Asking,
    api_metadata,
    api_refusing,
    api_without_provider,
    api_without_scope,
    asking,
    at_either_callback,
    callback,
    callback_without_store,
    choosing,
    crashing,
    login_after_a_failure,
    lost_by_form_post,
    signed_in,
    signing_out_without_the_provider,
    silently,
    to_be_refreshed,
    told_of_a_logout,
    with_fault,
    without_callback,
)

LOGIN: Final = "/auth/login"
LOGOUT: Final = "/auth/logout"
SCRIPT_URL: Final = "/auth/oidc-context.js"
FRONT_CHANNEL: Final = "/auth/frontchannel-logout"
WITH_FRONT_CHANNEL: Final = {"front_channel_logout": True}
FORM: Final = {"content-type": "application/x-www-form-urlencoded"}
LOST: Final = "/auth/callback?state=unknown&code=1"
TOO_MANY: Final = "/auth/logged-out?" + "&".join(["a=1"] * (MAX_FIELDS + 1))
FOREIGN: Final = {"origin": "https://elsewhere.test", "sec-fetch-site": "cross-site"}
KNOWN: Final = {"if-none-match": SCRIPT.etag}
SLOW_COOKIES: Final = {"cookie": "a=" + "\\" * (MOST_ESCAPES + 1)}

ANSWERS: Final[Mapping[str, Sequence[Asking]]] = {
    "`GET /login` 302 to the provider": [asking("GET", LOGIN)],
    "`GET /login` 302 to the host of `base_url`": [asking("GET", LOGIN, {"host": "www.test"})],
    "`GET /login` 200 silent page, provider failed": [
        with_fault("metadata", UNREACHABLE, SILENT, IFRAME)
    ],
    "`GET /login` 403, 500, 502 or 504 page": [
        asking("GET", SILENT, FOREIGN | PAGE),
        without_callback(PAGE),
        with_fault("metadata", UNREACHABLE, LOGIN, PAGE),
        with_fault("metadata", SLOW, LOGIN, PAGE),
    ],
    "`GET /login` 403, 500, 502 or 504 JSON": [
        asking("GET", SILENT, FOREIGN),
        without_callback(),
        with_fault("metadata", ServerError(), LOGIN),
        with_fault("metadata", SLOW, LOGIN),
    ],
    "`GET /login` 503 page": [login_after_a_failure(PAGE)],
    "`GET /login` 503 JSON": [login_after_a_failure()],
    "`GET /login` 422 for bad parameters": [asking("GET", f"{LOGIN}?prompt=no")],
    "`GET /login` 200 page of several providers": [choosing],
    "`GET /callback` 302 signed in": [callback()],
    "`POST /callback` 303 signed in": [callback(settings=FORM_POST)],
    "`GET /callback` 200 silent page": [silently("alice")],
    "`GET /callback` 200 silent page, other user or transaction lost": [
        silently("bob"),
        asking("GET", LOST, IFRAME),
    ],
    "`GET /callback`, `POST /callback` 400, 502 or 504 page": [
        asking("GET", LOST, PAGE),
        lost_by_form_post(PAGE),
        *at_either_callback(SLOW, PAGE),
        *at_either_callback(ServerError(), PAGE),
    ],
    "`GET /callback`, `POST /callback` 400, 502 or 504 JSON": [
        asking("GET", LOST),
        lost_by_form_post(),
        *at_either_callback(SLOW),
        *at_either_callback(ServerError()),
    ],
    "`GET /callback`, `POST /callback` 502 page, provider unreachable": [
        *at_either_callback(UNREACHABLE, PAGE)
    ],
    "`GET /callback`, `POST /callback` 502 JSON, provider unreachable": [
        *at_either_callback(UNREACHABLE)
    ],
    "`GET /callback`, `POST /callback` 503 page": [
        callback_without_store(PAGE),
        callback_without_store(PAGE, settings=FORM_POST),
    ],
    "`GET /callback`, `POST /callback` 503 JSON": [
        callback_without_store(),
        callback_without_store(settings=FORM_POST),
    ],
    "`GET /logout` 405 page, which says what to write": [asking("GET", LOGOUT, PAGE)],
    "`GET /logout` 405 JSON, which says what to write": [asking("GET", LOGOUT)],
    "`POST /logout` 302 to the provider": [signed_in("POST", LOGOUT)],
    "`POST /logout` 200 page, provider unreachable": [signing_out_without_the_provider],
    "`POST /logout` 400 or 403 page": [
        asking("POST", LOGOUT, PAGE, content=b"no form"),
        asking("POST", LOGOUT, FOREIGN | PAGE),
    ],
    "`POST /logout` 400 or 403 JSON": [
        asking("POST", LOGOUT, content=b"no form"),
        asking("POST", LOGOUT, FOREIGN),
    ],
    "`GET /logged-out` 302": [asking("GET", "/auth/logged-out")],
    "`GET /logged-out` 400 page": [asking("GET", TOO_MANY, PAGE)],
    "`GET /logged-out` 400 JSON": [asking("GET", TOO_MANY)],
    "`POST /backchannel-logout` 200 empty": [told_of_a_logout],
    "`POST /backchannel-logout` 400 JSON": [asking("POST", "/auth/backchannel-logout")],
    "`GET /frontchannel-logout` 200 empty": [
        asking("GET", f"{FRONT_CHANNEL}?iss=https://op.test&sid=1", settings=WITH_FRONT_CHANNEL)
    ],
    "`GET /frontchannel-logout` 400 page": [
        asking("GET", FRONT_CHANNEL, PAGE, settings=WITH_FRONT_CHANNEL)
    ],
    "`GET /frontchannel-logout` 400 JSON": [
        asking("GET", FRONT_CHANNEL, settings=WITH_FRONT_CHANNEL)
    ],
    "`GET /session` 200 JSON": [asking("GET", "/auth/session")],
    "`GET /session` 503 JSON": [to_be_refreshed("GET", "/auth/session")],
    "`GET /session-management` 200 JSON": [asking("GET", "/auth/session-management")],
    "`GET /oidc-context.js` 200": [asking("GET", SCRIPT_URL)],
    "`GET /oidc-context.js?v=` 200 this version": [
        asking("GET", f"{SCRIPT_URL}?v={SCRIPT.version}")
    ],
    "`GET /oidc-context.js` 304": [asking("GET", SCRIPT_URL, KNOWN)],
    "`require_auth` 302 to the login": [asking("GET", "/me", PAGE)],
    "`require_auth` 401 page": [asking("POST", "/form", PAGE)],
    "`require_auth` 401 JSON": [asking("GET", "/me")],
    "`require_auth` 503 page": [to_be_refreshed("GET", "/me", PAGE)],
    "`require_auth` 503 JSON": [to_be_refreshed("GET", "/me")],
    "`require`, `require_csrf` 403 page": [
        signed_in("GET", "/forbidden", PAGE),
        signed_in("POST", "/change", PAGE),
    ],
    "`require`, `require_csrf` 403 JSON": [
        signed_in("GET", "/forbidden"),
        signed_in("POST", "/change"),
    ],
    "`require_recent`, `require_acr` 302 to the login": [signed_in("GET", "/strong", PAGE)],
    "`require_recent`, `require_acr` 401 page": [signed_in("POST", "/strong", PAGE)],
    "`require_recent`, `require_acr` 401 page with a form": [
        signed_in("POST", "/strong", PAGE | FORM, content=b"a=1")
    ],
    "`require_recent`, `require_acr` 401 JSON": [
        signed_in("GET", "/strong"),
        signed_in("POST", "/strong", FORM, content=b"a=1"),
    ],
    "`api.require`, `api.protected` 400, 401 or 403 JSON": [
        api_refusing("Bearer"),
        api_refusing("Bearer no-jwt", PAGE),
        api_refusing(None),
        api_refusing("Bearer no-jwt", path="/tools/"),
        api_without_scope,
    ],
    "`api.require`, `api.protected` 503 JSON": [api_without_provider],
    "`api.router` 200 metadata": [api_metadata],
    "`request.state.oidc` 200 with a session": [signed_in("GET", "/")],
    "`request.state.oidc` 200 without a session": [asking("GET", "/")],
    "`OIDCMiddleware` 431 for slow cookies": [asking("GET", "/me", SLOW_COOKIES)],
    "`OIDCMiddleware` 500, the application raised": [crashing],
}
"""By the first two cells of its row."""
