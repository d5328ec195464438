"""Requests for each answer of `response_headers.md`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fastapi_oidc.testing import ServerError
from fastapi_oidc.web.pages import SCRIPT_VERSION
from fastapi_oidc.web.requests import MAX_FIELDS
from tests.oidc.web.asking import (
    FORM_POST,
    IFRAME,
    NONE,
    PAGE,
    SILENT,
    Asking,
    Headers,
    api_metadata,
    api_refusing,
    api_without_provider,
    api_without_scope,
    asking,
    callback,
    choosing,
    signed_in,
    signing_out_without_the_provider,
    silently,
    to_be_refreshed,
    told_of_a_logout,
    with_fault,
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
KNOWN: Final = {"if-none-match": f'W/"1", "{SCRIPT_VERSION}"'}


def page_and_json(
    answer: str, requests: Callable[[Headers], Sequence[Asking]]
) -> dict[str, Sequence[Asking]]:
    """`requests` by a browser that shows a page, and by a program."""
    return {f"{answer} page": requests(PAGE), f"{answer} JSON": requests(NONE)}


ANSWERS: Final[Mapping[str, Sequence[Asking]]] = {
    "`GET /login` 302 to the provider": [asking("GET", LOGIN)],
    "`GET /login` 302 to the host of `base_url`": [asking("GET", LOGIN, {"host": "www.test"})],
    "`GET /login` 200 silent page, provider failed": [
        with_fault("metadata", ServerError(), SILENT, IFRAME)
    ],
    **page_and_json(
        "`GET /login` 403 or 502",
        lambda headers: [
            asking("GET", SILENT, {**FOREIGN, **headers}),
            with_fault("metadata", ServerError(), LOGIN, headers),
        ],
    ),
    "`GET /login` 422 for bad parameters": [asking("GET", f"{LOGIN}?prompt=no")],
    "`GET /login` 200 page of several providers": [choosing],
    "`GET /callback` 302 signed in": [callback()],
    "`POST /callback` 303 signed in": [callback(settings=FORM_POST)],
    "`GET /callback` 200 silent page": [silently("alice")],
    "`GET /callback` 200 silent page, other user": [silently("bob")],
    **page_and_json(
        "`GET /callback` 400 or 502",
        lambda headers: [asking("GET", LOST, headers), callback(ServerError(), headers)],
    ),
    "`GET /logout` 405, which says what to write": [
        asking("GET", LOGOUT, PAGE),
        asking("GET", LOGOUT),
    ],
    "`POST /logout` 302 to the provider": [signed_in("POST", LOGOUT)],
    "`POST /logout` 200 page, provider unreachable": [signing_out_without_the_provider],
    **page_and_json(
        "`POST /logout` 400 or 403",
        lambda headers: [
            asking("POST", LOGOUT, headers, content=b"no form"),
            asking("POST", LOGOUT, {**FOREIGN, **headers}),
        ],
    ),
    "`GET /logged-out` 302": [asking("GET", "/auth/logged-out")],
    **page_and_json("`GET /logged-out` 400", lambda headers: [asking("GET", TOO_MANY, headers)]),
    "`POST /backchannel-logout` 200 empty": [told_of_a_logout],
    "`POST /backchannel-logout` 400 JSON": [asking("POST", "/auth/backchannel-logout")],
    "`GET /frontchannel-logout` 200 empty": [
        asking("GET", f"{FRONT_CHANNEL}?iss=https://op.test&sid=1", settings=WITH_FRONT_CHANNEL)
    ],
    **page_and_json(
        "`GET /frontchannel-logout` 400",
        lambda headers: [asking("GET", FRONT_CHANNEL, headers, settings=WITH_FRONT_CHANNEL)],
    ),
    "`GET /session` 200 JSON": [asking("GET", "/auth/session")],
    "`GET /session` 503 JSON": [to_be_refreshed("GET", "/auth/session")],
    "`GET /session-management` 200 JSON": [asking("GET", "/auth/session-management")],
    "`GET /oidc-context.js` 200": [asking("GET", SCRIPT_URL)],
    "`GET /oidc-context.js?v=` 200 this version": [
        asking("GET", f"{SCRIPT_URL}?v={SCRIPT_VERSION}")
    ],
    "`GET /oidc-context.js` 304": [asking("GET", SCRIPT_URL, KNOWN)],
    "`require_auth` 302 to the login": [asking("GET", "/me", PAGE)],
    "`require_auth` 401 page": [asking("POST", "/form", PAGE)],
    "`require_auth` 401 JSON": [asking("GET", "/me")],
    **page_and_json("`require_auth` 503", lambda headers: [to_be_refreshed("GET", "/me", headers)]),
    **page_and_json(
        "`require`, `require_csrf` 403",
        lambda sent: [signed_in("GET", "/forbidden", sent), signed_in("POST", "/change", sent)],
    ),
    "`require_recent`, `require_acr` 302 to the login": [signed_in("GET", "/strong", PAGE)],
    "`require_recent`, `require_acr` 401 page": [signed_in("POST", "/strong", PAGE)],
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
}
"""By the first two cells of its row."""
