"""A session that the request clears while it is being loaded is not there afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.routing import Route

from fastapi_oidc import OIDC, PersistContext, RequestDataContext
from fastapi_oidc.testing import sign_in
from tests.oidc.world import make_world, signed_in_world


@pytest.mark.parametrize("path", ["/me", "/auth/session", "/excluded"])
async def test_the_callback_that_loads_the_data_may_clear_the_session(path: str) -> None:
    is_suspended: list[bool] = []

    def load_request_data(context: RequestDataContext[Any]) -> None:
        if is_suspended:
            world.oidc.clear_session(context.connection)

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/excluded")
        async def excluded(request: Request) -> str:
            return (await oidc.require_auth(request)).sub

    middleware = {"exclude": ["/excluded"]}
    world, browser = await signed_in_world(
        mount=mount, middleware=middleware, load_request_data=load_request_data
    )
    is_suspended.append(True)
    answer = await browser.get(path)
    assert "alice" not in answer.text
    assert "Max-Age=0" in answer.headers["set-cookie"]


async def test_a_login_whose_data_clear_the_session_signs_nobody_in() -> None:
    def load_request_data(context: RequestDataContext[Any]) -> None:
        world.oidc.clear_session(context.connection)

    world = make_world(load_request_data=load_request_data)
    seen: list[object] = []

    def on_success(request: Request, _: object) -> None:
        seen.append(request.state.oidc.session)

    handler = world.oidc.callback_handler(on_success=on_success)
    world.app.router.routes.insert(0, Route("/auth/callback", handler))
    browser = world.browser()
    await sign_in(browser, "/auth/login?return_to=/", user="alice")
    assert seen == [None]
    assert (await browser.get("/me")).status_code == 401


async def test_a_session_that_is_cleared_during_its_refresh_stays_cleared() -> None:
    refreshing, cleared = asyncio.Event(), asyncio.Event()

    async def before_session_persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            refreshing.set()
            await cleared.wait()

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/excluded")
        async def excluded(request: Request) -> list[bool]:
            loading = asyncio.create_task(oidc.get_locals(request))
            await refreshing.wait()
            oidc.clear_session(request)
            cleared.set()
            locals = await loading
            return [locals.is_authenticated, request.state.oidc.is_authenticated]

    middleware = {"exclude": ["/excluded"]}
    world, browser = await signed_in_world(
        mount=mount, middleware=middleware, before_session_persist=before_session_persist
    )
    world.time.advance(3600)
    answer = await browser.get("/excluded")
    assert answer.json() == [False, False]
    assert "Max-Age=0" in answer.headers["set-cookie"]
