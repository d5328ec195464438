"""Handlers that are mounted one by one work as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse

from fastapi_oidc import (
    OIDC,
    ConfigurationError,
    IdentityContext,
    OIDCMiddleware,
    SignedIn,
    StandardIdentity,
)
from fastapi_oidc.testing import sign_in
from fastapi_oidc.web.unawaited import require_takes
from tests.oidc.world import BASE_URL, World, make_world, signed_in_world


def mounted(world: World, **handlers: Callable[..., Any]) -> FastAPI:
    """An app of its own with some of the handlers."""
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=world.oidc)
    app.get("/in")(world.oidc.login_handler())
    app.get("/auth/callback")(world.oidc.callback_handler(**handlers))
    app.post("/out")(world.oidc.logout_handler())
    app.get("/who")(world.oidc.session_handler())
    return app


async def signed_in(browser: httpx.AsyncClient) -> bool:
    return bool((await browser.get("/who")).json()["is_authenticated"])


async def test_every_route_has_a_handler() -> None:
    world = make_world()
    app = mounted(world)
    app.get("/watch")(world.oidc.session_management_handler())
    app.get("/script.js")(world.oidc.script_handler())
    async with world.op.browser(app, base_url=BASE_URL) as browser:
        assert (await browser.get("/who")).json() == {"is_authenticated": False}
        assert (await browser.get("/watch")).json()["client_id"] == "app"
        assert "OIDCContext" in (await browser.get("/script.js")).text


@pytest.mark.parametrize("store", [None, "memory"])
async def test_an_on_success_that_raises_leaves_no_session(store: Any) -> None:
    cookies: list[str] = []

    async def suspended(_request: Request, _signed_in: SignedIn[Any]) -> None:
        raise HTTPException(403, "suspended")

    world = make_world(session_store=store)
    async with world.op.browser(mounted(world, on_success=suspended), base_url=BASE_URL) as browser:
        answer = await sign_in(browser, "/in", user="alice")
        cookies += [value for name, value in answer.headers.multi_items() if name == "set-cookie"]
        assert answer.status_code == 403
        assert not await signed_in(browser)
    assert not [cookie for cookie in cookies if cookie.startswith("__Host-oidc_session=ey")]


async def test_an_on_success_that_clears_the_session_leaves_none_in_the_store() -> None:
    def turn_away(request: Request, _signed_in: SignedIn[Any]) -> PlainTextResponse:
        world.oidc.clear_session(request)
        return PlainTextResponse("you may not", 403)

    world = make_world(session_store="memory")
    before = await world.signed_in()
    async with world.op.browser(mounted(world, on_success=turn_away), base_url=BASE_URL) as browser:
        browser.cookies.update(dict(before.cookies))
        assert (await sign_in(browser, "/in", user="alice")).status_code == 403
        assert not await signed_in(browser)
    assert await world.oidc.sessions_of("alice") == []


@pytest.mark.parametrize("store", [None, "memory"])
@pytest.mark.parametrize("again", ["reload", "silent check"])
async def test_data_that_cannot_be_loaded_ends_no_session(store: Any, again: str) -> None:
    down: list[bool] = []

    def load_request_data(_context: object) -> None:
        if down:
            raise HTTPException(503, "no data")

    world = make_world(session_store=store, load_request_data=load_request_data)
    app = mounted(world, on_success=lambda _request, _signed_in: None)
    async with world.op.browser(app, base_url=BASE_URL) as browser:
        answer = await sign_in(browser, "/in", user="alice")
        callback = [str(each.url) for each in answer.history if "code=" in str(each.url)][-1]
        down.append(True)
        url = callback if again == "reload" else "/in?silent=1"
        assert (await browser.get(url)).status_code == 503
        down.clear()
        assert await signed_in(browser)


async def test_an_on_success_sees_who_signed_in_and_the_data_of_the_request() -> None:
    seen: list[object] = []

    async def note(request: Request, signed_in: SignedIn[Any]) -> None:
        locals = await world.oidc.get_locals(request)
        assert request.state.oidc is locals
        seen.extend([signed_in.session.sub, locals.identity.sub, locals.data])

    world = make_world(load_request_data=lambda context: f"data of {context.session.sub}")
    async with world.op.browser(mounted(world, on_success=note), base_url=BASE_URL) as browser:
        await sign_in(browser, "/in?return_to=/who", user="alice")
    assert seen == ["alice", "alice", "data of alice"]


async def test_a_request_that_signs_out_is_nobodys() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/clear")
        async def clear(request: Request) -> object:
            oidc.clear_session(request)
            locals = await oidc.get_locals(request)
            signed_in = [request.state.oidc.is_authenticated, locals.is_authenticated]
            return [*signed_in, locals.data, await oidc.get_session(request)]

    _, browser = await signed_in_world(mount=mount, load_request_data=lambda _context: "data")
    assert (await browser.get("/clear")).json() == [False, False, None, None]
    assert (await browser.get("/")).json() == {"is_authenticated": False}


async def test_a_result_that_is_no_response_says_so() -> None:
    world = make_world()
    app = mounted(world, on_success=lambda _request, _signed_in: "/welcome")
    async with world.op.browser(app, base_url=BASE_URL) as browser:
        with pytest.raises(TypeError, match="result of on_success must be Response or None, not s"):
            await sign_in(browser, "/in", user="alice")
        assert not await signed_in(browser)
    app = mounted(world, on_failure=lambda _request, _error: {"failed": True})
    async with world.op.browser(app, base_url=BASE_URL) as browser:
        with pytest.raises(TypeError, match="result of on_failure must be Response or None, not d"):
            await browser.get("/auth/callback?state=x&code=y")


async def test_only_own_urls_are_returned_to(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    async with world.browser() as browser:
        page = await sign_in(browser, f"/auth/login?return_to={BASE_URL}/me", user="alice")
        assert page.url.path == "/me"
        left = await browser.post("/auth/logout", data={"return_to": f"{BASE_URL}/me", "local": 1})
        assert (left.history[0].headers["location"], caplog.messages) == ("/me", [])
        await browser.post("/auth/logout", data={"return_to": "https://pages.test/", "local": 1})
    assert "return_to: nobody returns to 'https://pages.test/': only paths of" in caplog.text


@pytest.mark.parametrize(
    ("query", "host", "told"),
    [
        ("return_to=/me&utm_source=mail", "localhost:8000", ""),
        ("return_to=/me&next=/me", "127.0.0.1", ""),
        ("return_to=https://localhost/me", "localhost", ""),
        (
            "redirect_uri=/me",
            "localhost",
            "a login: does not read 'redirect_uri', but return_to, p",
        ),
        (
            "return_to=//pages.test",
            "localhost",
            "return_to: nobody returns to '//pages.test': only",
        ),
        (
            "return_to=me",
            "localhost",
            "return_to: nobody returns to 'me': only paths of this application, such as '/me'",
        ),
        ("provider=Our%20staff", "localhost", "provider: a login named 'Our staff'; the names of "),
        ("", "app.example", "base_url: it is missing, so a login returns to the host of its req"),
    ],
)
async def test_why_a_login_may_surprise_is_told(
    query: str, host: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world(settings={"base_url": None, "allow_insecure_http": True})
    async with world.browser() as browser:
        answer = await browser.get(f"/auth/login?{query}", headers={"host": host})
    assert (answer.status_code == 404) == told.startswith("provider")
    advice = [each for each in caplog.messages if not each.startswith("DevProvider")]
    assert [each[: len(told)] for each in advice] == [told] * bool(told)


def of_two(claims: Any, user_info: Any) -> StandardIdentity:
    return StandardIdentity(sub=claims["sub"] + user_info["sub"])


async def of_none() -> None: ...


def of_one(page: Any) -> None: ...


@pytest.mark.parametrize(
    ("option", "callback", "said"),
    [
        ("resolve_identity", of_two, "is called with (IdentityContext), and takes (claims: "),
        ("before_session_persist", of_none, "is called with (PersistContext), and takes ()"),
        ("load_request_data", of_two, "is called with (RequestDataContext), and takes (claims"),
        ("create_public_session", of_none, "is called with (PublicSessionContext), and takes"),
        ("render_page", of_one, "is called with (Request, Page), and takes (page: "),
        ("before_session_persist", "approve", "is a function, not str"),
    ],
)
def test_a_callback_of_something_else_is_refused(option: str, callback: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_world(**{option: callback})
    assert f"{option} {said}" in str(refused.value)


def of_everything(*anything: str, **named: str) -> None: ...


@wraps(of_two)
def decorated(*given: Any) -> StandardIdentity:
    return of_two(given[0], {"sub": "injected"})


async def check(*_: object) -> bool:
    return True


class Local:
    """A class whose methods have names of parameters."""

    def __init__(self, check: Any) -> None: ...

    def method(self, check: Any) -> bool:
        return check() and True


def of_nested(page: Any) -> Any:
    def inner(check: Any) -> bool:
        return check() and True

    return inner, [check for check in page if check() and True]


def of_rebound(page: Any) -> Any:
    page = page.sub
    return page.check() and True


FITTING: list[Any] = [of_one, of_everything, partial(of_two, {}), decorated, None, print, type]
FITTING += [Local, of_nested, of_rebound, lambda page: all(check() for check in page)]


@pytest.mark.parametrize("callback", FITTING)
def test_what_may_fit_is_accepted(callback: Any) -> None:
    require_takes("callback", callback, IdentityContext)
