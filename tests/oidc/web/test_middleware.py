"""Cookies go out with every kind of answer, and only where they belong."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException, Request, WebSocket
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from hypothesis import given
from hypothesis import strategies as st
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint

from fastapi_oidc import OIDC, OIDCLocals, RequestDataContext, oidc_locals, require_auth
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.web.requests import own_cookies
from tests.oidc.protocol.examples import each
from tests.oidc.web.test_websockets import opened
from tests.oidc.world import BASE_URL, World, make_world, signed_in_world

CLOSE_TO_EXPIRY = 280


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/own-response")
    async def own_response(_session: Annotated[Any, Depends(require_auth)]) -> PlainTextResponse:
        return PlainTextResponse("own")

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"one"
            yield b"two"

        return StreamingResponse(chunks())

    @app.get("/http-error")
    async def http_error() -> None:
        raise HTTPException(418, "teapot")

    @app.get("/state")
    async def state(request: Request) -> object:
        return {"is_authenticated": request.state.oidc.is_authenticated}

    @app.get("/static/file")
    async def static() -> str:
        return "file"

    @app.get("/static/unread")
    async def unread(request: Request) -> object:
        return {"is_authenticated": request.state.oidc.is_authenticated}

    @app.get("/static/asked")
    async def asked(locals: Annotated[OIDCLocals[Any, Any], Depends(oidc_locals)]) -> object:
        return {"is_authenticated": locals.is_authenticated}

    @app.websocket("/ws")
    async def ws(socket: WebSocket, session: Annotated[Any, Depends(require_auth)]) -> None:
        await socket.accept()
        await socket.send_text(session.sub)
        await socket.close()


async def about_to_refresh() -> tuple[World, httpx.AsyncClient]:
    """A browser whose next request refreshes its session."""
    world, browser = await signed_in_world(mount=mount)
    world.time.advance(CLOSE_TO_EXPIRY)
    return world, browser


@pytest.mark.parametrize(
    ("path", "status"),
    [("/own-response", 200), ("/stream", 200), ("/http-error", 418), ("/missing", 404)],
)
async def test_a_refreshed_cookie_is_never_lost(path: str, status: int) -> None:
    _, browser = await about_to_refresh()
    answer = await browser.get(path)
    assert answer.status_code == status
    assert answer.headers["set-cookie"].startswith("__Host-oidc_session=")
    assert answer.headers["cache-control"] == "no-store"
    assert "Cookie" in answer.headers["vary"]


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_a_request_that_raises_has_no_cookies_and_loses_nothing(is_cleared: bool) -> None:
    def crashing(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/crash")
        async def crash(request: Request) -> None:
            if is_cleared:
                oidc.clear_session(request)
            raise RuntimeError

    world, browser = await signed_in_world(mount=crashing)
    world.time.advance(3600)
    with pytest.raises(RuntimeError):
        await browser.get("/crash")
    again = await browser.get("/me")
    assert again.status_code == 401 if is_cleared else again.json()["generation"] == 1
    assert world.op.record.calls["token"] == 2


async def test_an_answer_that_asked_nobody_does_not_vary() -> None:
    _, browser = await signed_in_world(mount=mount, middleware={"exclude": ["/static"]})
    assert "vary" not in (await browser.get("/static/file")).headers
    assert "vary" not in (await browser.get("/auth/oidc-context.js")).headers
    assert (await browser.get("/static/asked")).headers["vary"] == "Cookie"


async def test_cookies_have_every_attribute() -> None:
    _, browser = await about_to_refresh()
    cookie = (await browser.get("/")).headers["set-cookie"]
    assert cookie.split("; ")[1:] == [
        f"Max-Age={8 * 3600 - CLOSE_TO_EXPIRY}",
        "Path=/",
        "HttpOnly",
        "SameSite=Lax",
        "Secure",
    ]


async def test_excluded_paths_load_only_when_asked(caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"middleware": {"exclude": ["/static"]}, "session_store": "memory"}
    world, browser = await signed_in_world(mount=mount, **options)
    assert (await browser.get("/static/file")).status_code == 200
    anonymous = httpx.AsyncClient(transport=httpx.ASGITransport(world.app), base_url=BASE_URL)
    async with anonymous:  # such as a health check, whose log names the user
        assert (await anonymous.get("/static/unread")).json() == {"is_authenticated": False}
    assert (await browser.get("/static/unread")).status_code == 500
    assert "state.oidc.is_authenticated is read below `exclude` of OIDCMiddl" in caplog.text
    assert (await browser.get("/static/asked")).json() == {"is_authenticated": True}
    assert (await browser.get("/state")).json() == {"is_authenticated": True}


async def test_request_data_is_loaded_once_and_never_kept() -> None:
    loads: list[str] = []

    async def load_request_data(context: RequestDataContext[Any]) -> dict[str, str]:
        loads.append(context.connection.url.path)
        return {"plan": "free"}

    def with_data(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/data")
        async def data(
            request: Request, locals: Annotated[OIDCLocals[Any, Any], Depends(oidc_locals)]
        ) -> object:
            await oidc.get_session(request)
            return locals.data

    world, browser = await signed_in_world(mount=with_data, load_request_data=load_request_data)
    loads.clear()
    assert (await browser.get("/data")).json() == {"plan": "free"}
    assert loads == ["/data"]
    async with world.browser() as nobody:
        assert (await nobody.get("/data")).json() is None
    assert loads == ["/data"]


async def test_a_websocket_gets_its_session_and_its_cookies_at_accept() -> None:
    world, browser = await about_to_refresh()
    accept, text, _close = await opened(world, dict(browser.cookies))
    assert accept["type"] == "websocket.accept"
    assert any(
        name == b"set-cookie" and value.startswith(b"__Host-oidc_session=")
        for name, value in accept["headers"]
    )
    assert text["text"] == "alice"


def suspended(_context: RequestDataContext[Any]) -> None:
    raise HTTPException(403, "suspended", {"X-Reason": "suspended"})


async def test_load_request_data_may_refuse_a_request_and_a_websocket() -> None:
    world = make_world(mount=mount, load_request_data=suspended)
    browser = world.browser()
    await browser.get("/auth/login?return_to=/auth/session-management&login_hint=alice")
    answer = await browser.get("/state")
    assert (answer.status_code, answer.headers["x-reason"]) == (403, "suspended")
    (close,) = await opened(world, dict(browser.cookies))
    assert (close["type"], close["code"]) == ("websocket.close", 1008)


def add_inside(app: FastAPI, dispatch: Any) -> None:
    """Add a middleware as an application does before it adds OIDCMiddleware."""
    app.user_middleware.append(Middleware(BaseHTTPMiddleware, dispatch=dispatch))


def with_own_headers(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    async def add(request: Request, call_next: RequestResponseEndpoint) -> Response:
        response = await call_next(request)
        for name in ("Cache-Control", "Set-Cookie"):
            if value := request.query_params.get(name):
                response.headers[name] = value
        return response

    add_inside(app, add)

    @app.get("/guarded")
    async def guarded(_session: Annotated[Any, Depends(require_auth)]) -> None: ...

    @app.get("/page")
    async def page() -> None: ...


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/guarded?Cache-Control=public,max-age=60", "private"),
        ("/guarded?Cache-Control=s-maxage=60", "private"),
        ("/auth/session?Cache-Control=Public", "private"),
        ("/guarded?Cache-Control=max-age=60", "max-age=60"),
        ("/page?Cache-Control=public", "public"),
    ],
)
async def test_no_shared_cache_keeps_what_a_guard_protects(path: str, kept: str) -> None:
    """RFC 9111 5.2.2.9 and 5.2.2.10."""
    _, browser = await signed_in_world(mount=with_own_headers)
    assert (await browser.get(path)).headers["cache-control"] == kept


async def test_a_response_that_deletes_the_session_cookie_itself_is_refused() -> None:
    world, browser = await signed_in_world(mount=with_own_headers)
    assert (await browser.get("/page?Set-Cookie=__Host-oidc_session_of=mine")).status_code == 200
    for name in ("__Host-oidc_session", "oidc_session"):
        answer = await browser.get(f"/page?Set-Cookie={name}=;Max-Age=0")
        assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")
    assert "call oidc.clear_session(request)" in str(world.events[-1])
    assert (await browser.get("/guarded")).status_code == 200, "the session goes on"


async def test_a_middleware_that_guards_the_login_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        async def guard(request: Request, call_next: RequestResponseEndpoint) -> Response:
            await oidc.require_auth(request)
            return await call_next(request)

        add_inside(app, guard)

    browser = make_world(mount=mount).browser()
    assert (await browser.get("/page")).status_code == 401
    assert "where people sign in" not in caplog.text
    assert (await browser.get("/auth/login")).status_code == 401
    assert "require_auth: it refuses /auth/login, where people sign in" in caplog.text


NAMES = CookieNames("oidc", secure=True)
SESSION = "__Host-oidc_session"
LOGIN = "__Host-oidc_login_" + "0" * 32


def read(*lines: str) -> dict[str, str]:
    return own_cookies([(b"cookie", line.encode("latin-1")) for line in lines], NAMES)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (f"{SESSION}=abc", {SESSION: "abc"}),
        (f"theme=dark; {SESSION}=abc; {LOGIN}=def", {SESSION: "abc", LOGIN: "def"}),
        (f"theme=dark;{SESSION} = abc ", {SESSION: "abc"}),
        (f'{SESSION}="abc"', {SESSION: "abc"}),
        (f'{SESSION}="abc', {SESSION: '"abc'}),
        (f'{SESSION}="', {SESSION: '"'}),
        (f'{SESSION}="a\\"b\\101"', {SESSION: 'a\\"b\\101'}),
        (f"{SESSION}=a=b", {SESSION: "a=b"}),
        (f"{SESSION}=", {SESSION: ""}),
        (SESSION, {SESSION: ""}),
        (f"{SESSION}=first; {SESSION}=last", {SESSION: "last"}),
    ],
)
def test_ours_are_read(line: str, found: dict[str, str]) -> None:
    assert read(line) == found


OTHERS = {
    "none": ("", ";;;", "=abc"),
    "of another name": ("oidc_session=abc", f"x{SESSION}=abc", f"{SESSION}x=abc"),
    "of another instance": ("__Host-partners_session=abc",),
    "of no login": ("__Host-oidc_login_=abc",),
    "behind another space": (f"\xa0{SESSION}=abc",),
}


@pytest.mark.parametrize("line", each(OTHERS))
def test_others_are_not(line: str) -> None:
    assert read(line) == {}


def test_a_cookie_header_may_come_in_pieces() -> None:
    assert read("theme=dark", f"{SESSION}=abc", f"{LOGIN}=def") == {SESSION: "abc", LOGIN: "def"}
    assert own_cookies([(b"x-cookie", SESSION.encode() + b"=abc")], NAMES) == {}


@given(st.text(alphabet=st.characters(max_codepoint=255)))
def test_any_text_is_read_without_an_error(line: str) -> None:
    assert set(read(line)) <= {SESSION, LOGIN}
