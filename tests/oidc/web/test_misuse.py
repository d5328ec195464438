"""What an application does at the wrong time or place, or with a wrong type, is named."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, WebSocket

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    LoginOptions,
    LogoutOptions,
    MemoryStore,
    OIDCError,
    OIDCMiddleware,
    StandardIdentity,
)
from fastapi_oidc.testing import session_for
from tests.oidc.web.test_websockets import opened
from tests.oidc.world import BASE_URL, make_world, signed_in_world


async def test_a_task_that_outlives_its_request_is_told_so() -> None:
    tasks: list[asyncio.Task[object]] = []
    responded = asyncio.Event()

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/begin")
        async def begin(request: Request) -> None:
            async def later() -> object:
                await responded.wait()
                return await oidc.get_session(request)

            tasks.append(asyncio.create_task(later()))

    browser = await make_world(mount=mount).signed_in()
    await browser.get("/begin")
    responded.set()
    with pytest.raises(ConfigurationError, match="this request has ended") as caught:
        await tasks[0]
    assert caught.value.code is Code.CONFIGURATION_INVALID


@pytest.mark.parametrize("how", ["get_session", "locals", "refresh", "is_still_signed_in"])
@pytest.mark.parametrize("origin", ["https://other.app.test", BASE_URL])
async def test_a_websocket_of_another_origin_gets_no_session(how: str, origin: str) -> None:
    seen: list[object] = []

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        ask: Any = {
            "get_session": oidc.get_session,
            "locals": oidc.locals,
            "refresh": oidc.refresh,
            "is_still_signed_in": oidc.is_still_signed_in,
        }[how]

        @app.websocket("/ws")
        async def ws(socket: WebSocket) -> None:
            seen.append(socket.state.oidc.session)
            try:
                seen.append(await ask(socket))
            except OIDCError as error:
                seen.append(error.code)

    world, browser = await signed_in_world(mount=mount)
    await opened(world, dict(browser.cookies), (b"origin", origin.encode()))
    if origin == BASE_URL:
        assert seen[0] is not None
        assert seen[1]
    else:
        assert seen == [None, Code.SESSION_CROSS_SITE]


def test_another_event_loop_than_asyncio_is_named() -> None:
    """A coroutine that is run by hand has no event loop of asyncio, as under trio."""
    world = make_world()
    world.oidc.api("https://api.test", introspect=True)  # which looks for the endpoint in a task
    scope = {"type": "http", "app": world.app, "path": "/", "headers": []}

    async def nothing(*_: object) -> Any: ...

    request = OIDCMiddleware(world.app.router, oidc=world.oidc)(scope, nothing, nothing)
    with pytest.raises(ConfigurationError, match="supports asyncio only"):
        request.send(None)


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
NO: Any = "no"
NEXT: Any = {"next": "/"}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda o: o.auth(SECRET), r"session of oidc.auth\(session\) must be .* or Grant, not str"),
        (
            lambda o: o.grant(SESSION),
            "session_id of oidc.grant must be str or .*, not OIDCSession$",
        ),
        (lambda o: o.csrf_token(SECRET), "session of oidc.csrf_token must be OIDCSession, not str"),
        (lambda o: o.check_csrf_token(SECRET, SECRET), "session of .* must be OIDCSession, not st"),
        (lambda o: o.check_csrf_token(SESSION, 1), "token of .* must be str or None, not int"),
        (lambda o: o.user_info(SESSION.sub), "session of oidc.user_info must be .*, not str"),
        (lambda o: o.revoke("alice"), r"takes names: oidc\.revoke\(sub=\.\.\.\)"),
        (lambda o: o.revoke(sub=SESSION), "sub of oidc.revoke must be str or None, not OIDCSessio"),
        (lambda o: o.revoke(session_id=SESSION), "session_id of oidc.revoke must be .*, not OIDC"),
        (lambda o: o.sessions_of(SESSION), "sub of oidc.sessions_of must be str, not OIDCSession"),
        (lambda o: o.to_public_session(SESSION), "locals of .* must be OIDCLocals, not OIDCSess"),
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
        (lambda o: o.api("api", resolve_identity=SECRET), "of oidc.api is a function, not str"),
        (lambda o: LogoutOptions(local=NO), r"local\n  Input should be a valid boolean"),
        (lambda o: LoginOptions(max_age=NO), r"max_age\n  Input should be a valid integer"),
        (lambda o: LoginOptions(**NEXT), r"next\n  Unexpected keyword argument"),
        (lambda o: o.app_auth(min_validity=SECRET), "min_validity must be int, not str"),
        (lambda o: MAKE(SECRET), r"settings of OIDC \(several are a dict: .*OIDCSettings, not str"),
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

    with pytest.raises((TypeError, ValueError, ConfigurationError), match=told) as caught:
        asyncio.run(awaited())
    assert SECRET not in str(caught.value)
