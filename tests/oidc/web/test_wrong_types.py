"""A value of the wrong type is named at the call; no store and no provider is asked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from fastapi_oidc import OIDC, MemoryStore, StandardIdentity
from fastapi_oidc.testing import session_for
from tests.oidc.world import make_world

SECRET = "a-value-that-no-error-shows"
REQUEST = Request({"type": "http", "headers": []})
SESSION = session_for(StandardIdentity(sub=SECRET))


class Untouched(MemoryStore):
    async def read(self, keys: Any, /) -> Any:
        raise AssertionError("the store was asked")

    swap = read  # type: ignore[assignment]


class Nobody(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise AssertionError("the network was used")


MAKE: Any = OIDC


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda o: o.auth(SECRET), r"session of oidc.auth\(session\) must be .* or Grant, not str"),
        (lambda o: o.auth(None), r"session of oidc.auth\(session\) must be .*, not NoneType"),
        (
            lambda o: o.grant(SESSION),
            "session_id of oidc.grant must be str or .*, not OIDCSession$",
        ),
        (lambda o: o.csrf_token(SECRET), "session of oidc.csrf_token must be OIDCSession, not str"),
        (lambda o: o.check_csrf_token(SECRET, SECRET), "session of .* must be OIDCSession, not st"),
        (lambda o: o.check_csrf_token(SESSION, 1), "token of .* must be str or None, not int"),
        (lambda o: o.user_info(SESSION.sub), "session of oidc.user_info must be .*, not str"),
        (lambda o: o.revoke(sub=SESSION), "sub of oidc.revoke must be str or None, not OIDCSessio"),
        (lambda o: o.revoke(session_id=SESSION), "session_id of oidc.revoke must be .*, not OIDC"),
        (lambda o: o.sessions_of(SESSION), "sub of oidc.sessions_of must be str, not OIDCSession"),
        (
            lambda o: o.to_public_session(SESSION),
            "locals of .* must be OIDCLocals, not OIDCSess",
        ),
        (lambda o: o.clear_session(SESSION), "the request or websocket must be HTTPConnection, no"),
        (lambda o: o.login(SESSION), "login takes a request or websocket, not OIDCSession"),
        (lambda o: o.login(REQUEST, SECRET), "options of oidc.login must be LoginOptions or None"),
        (lambda o: o.logout(REQUEST, SECRET), "options of oidc.logout must be LogoutOptions or No"),
        (lambda o: MAKE(o.settings, http={}), "http of OIDC must be HTTPOptions or None, not dict"),
        (lambda o: MAKE(o.settings, on_event=SECRET), "on_event of OIDC must be a function, not s"),
        (lambda o: o.api("api", dpop_required=SECRET), "dpop_required of .* must be bool, not str"),
        (
            lambda o: o.api("api", accept_plain_jwt="false"),
            "accept_plain_jwt of oidc.api must be bool, not str",
        ),
        (lambda o: MAKE(SECRET), "settings of OIDC must be OIDCSettings, not str"),
        (lambda o: MAKE(o.settings, client_id="a"), r"OIDC\(OIDCSettings\(client_id=...\)\)"),
        (lambda o: MAKE(type(o.settings)), "not the class OIDCSettings"),
    ],
)
def test_it_is_named(call: Callable[[Any], Any], told: str) -> None:
    oidc = make_world(session_store=Untouched(), transport=Nobody()).oidc

    async def awaited() -> None:
        made = call(oidc)
        if inspect.isawaitable(made):
            await made

    with pytest.raises(TypeError, match=told) as caught:
        asyncio.run(awaited())
    assert SECRET not in str(caught.value)
