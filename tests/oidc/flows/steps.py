"""What the tests of this folder do with a world."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, Clock, MemoryStore, OIDCSession
from fastapi_oidc.flows.resume import current
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.testing import TokensIssued
from fastapi_oidc.testing.headless import _first_form
from tests.oidc.interleaving import another_process
from tests.oidc.world import BASE_URL, LOGIN_URL, Time, World, make_world

AFTER_EXPIRY: Final = 400
"""Seconds after which an access token of the provider has expired."""

SHORTLY_BEFORE_EXPIRY: Final = 280
"""Seconds after which an access token is about to expire, and can still be used."""

RETRY: Final = 10
"""Seconds after which a postponed refresh is tried again."""

LEASE: Final = 13
"""Seconds after which a process that has died no longer owns a row."""

LOCAL: Final = {"local": "1"}
"""The form of a sign-out that leaves the provider's session alone."""


def refreshes(world: World) -> int:
    """How many refresh tokens the provider has accepted."""
    issued = world.op.record.of(TokensIssued)
    return sum(event.grant_type == "refresh_token" for event in issued)


async def generation(browser: httpx.AsyncClient) -> int | None:
    """The generation of the browser's session; None when it is not signed in."""
    answer = await browser.get("/me")
    return answer.json()["generation"] if answer.status_code == 200 else None


async def user(browser: httpx.AsyncClient) -> str | None:
    """The `sub` of the browser's session; None when it is not signed in."""
    answer = await browser.get("/me")
    return str(answer.json()["sub"]) if answer.status_code == 200 else None


class Watched:
    """A world that has every session that was loaded in it."""

    def __init__(self, **options: Any) -> None:
        self.sessions: list[OIDCSession[Any]] = []
        self.world: World = make_world(
            load_request_data=lambda context: self.sessions.append(context.session), **options
        )


async def live_in(world: World, browser: httpx.AsyncClient) -> Live:
    """The browser's session, as a request to the process finds it."""
    cookies = {each.name: str(each.value) for each in browser.cookies.jar}
    found = await current(world.oidc.runtime.party, cookies)
    assert found is not None
    return found


def revoked_by(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens that the process revokes from now on."""
    tokens: list[str] = []

    async def noted(token: str, _: str) -> None:
        tokens.append(token)

    monkeypatch.setattr(world.oidc.runtime.party.provider, "revoke", noted)
    return tokens


def copy_of(browser: httpx.AsyncClient, world: World) -> httpx.AsyncClient:
    """Another browser with a copy of the cookies, whose requests go to `world`."""
    copy = world.browser()
    copy.cookies.update(dict(browser.cookies))
    return copy


async def callback_url(
    browser: httpx.AsyncClient,
    url: str = LOGIN_URL,
    *,
    callback: str = f"{BASE_URL}/auth/callback",
    user: str = "alice",
) -> str:
    """Sign in at the provider, and stop before the browser comes back with the code."""
    answer = await browser.get(url, follow_redirects=False)
    while not answer.headers["location"].startswith(callback):
        answer = await browser.get(answer.headers["location"], follow_redirects=False)
        if answer.status_code == 200:
            form = _first_form(answer)
            data = form.fields | {"user": user}
            answer = await browser.post(form.action, data=data, follow_redirects=False)
    return str(answer.headers["location"])


async def returned(browser: httpx.AsyncClient, url: str) -> str | None:
    """Where the callback at `url` sends the browser; None when it was refused."""
    answer = await browser.get(url, follow_redirects=False)
    location: str | None = answer.headers.get("location")
    return location


async def signed_out(browser: httpx.AsyncClient, **form: str) -> httpx.Response:
    """The redirect that a sign-out from a page responds with."""
    data = {"return_to": "/me"} | form
    return await browser.post("/auth/logout", data=data, follow_redirects=False)


def shared_stores(mode: str, time: Time) -> dict[str, Any]:
    """What processes share: a store of the sessions, or of what is known of those in cookies."""
    return stores_of(mode, MemoryStore(clock=Clock(read=time)))


def stores_of(mode: str, store: Any) -> dict[str, Any]:
    """The options of an `OIDC` object for sessions in `store`, or in cookies with their rows."""
    if mode == "store":
        return {"session_store": store, "back_channel_logout_store": None}
    return {"session_store": None, "back_channel_logout_store": store}


def two_processes(mode: str, **options: Any) -> tuple[World, World]:
    """Two processes of one application that share stores; `options` are those of `make_world`."""
    time = options.get("time") or Time()
    options = {"time": time} | shared_stores(mode, time) | options
    here = make_world(**options)
    for name in ("time", "settings", "lifetimes", "client", "provider", "transport"):
        options.pop(name, None)
    return here, another_process(here, **options)


def with_connection(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    """A page `/connection` that stays open, as a websocket or an event stream does."""
    app.state.opened = asyncio.Queue()

    @app.get("/connection")
    async def connection(request: Request) -> None:
        app.state.opened.put_nowait(request)
        await asyncio.Event().wait()


async def connected(world: World, browser: httpx.AsyncClient) -> Request:
    """A request of the browser to `/connection`, which stays open until the test ends."""
    world.app.state.task = asyncio.create_task(browser.get("/connection"))
    request: Request = await world.app.state.opened.get()
    return request


async def until(holds: Callable[[], bool]) -> None:
    """Let other tasks run until `holds()`."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - of whatever a test can see
            await asyncio.sleep(0)


async def others_have_run(turns: int = 100) -> None:
    """Let other tasks come as far as they can without a timer."""
    for _ in range(turns):
        await asyncio.sleep(0)
