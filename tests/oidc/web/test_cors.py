"""A page of another origin reads refusals, in whatever order the middlewares were added."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException
from fastapi.middleware.cors import CORSMiddleware

from fastapi_oidc import OIDC, OIDCMiddleware
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.world import LOGIN_URL, Time, World, make_world, signed_in_world

PAGES = "https://pages.test"
ORIGIN = {"origin": PAGES, "sec-fetch-mode": "cors"}


def cors_inside(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    add_cors(app)
    app.add_middleware(OIDCMiddleware, oidc=oidc)


def cors_outside(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    add_cors(app)


def cors_in_between(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    app.add_middleware(OIDCMiddleware, oidc=make_world(settings={"name": "partners"}).oidc)
    add_cors(app)
    app.add_middleware(OIDCMiddleware, oidc=oidc)


def add_cors(app: FastAPI) -> None:
    app.add_middleware(CORSMiddleware, allow_origins=[PAGES], allow_credentials=True)


ORDERS = [cors_inside, cors_outside, cors_in_between]
Order = Callable[[FastAPI, OIDC[Any, Any]], None]


def world_of(order: Order, **options: Any) -> World:
    world = make_world(**options)
    world.app = FastAPI()
    order(world.app, world.oidc)
    world.app.include_router(world.oidc.router, prefix="/auth")
    guard = Depends(world.oidc.require_auth)
    world.app.get("/me", dependencies=[guard])(lambda: "me")
    return world


async def get(world: World, path: str, **headers: str) -> httpx.Response:
    return await world.browser().get(path, headers=ORIGIN | headers)


@pytest.mark.parametrize("order", ORDERS)
async def test_a_refusal_can_be_read_by_the_origin_that_may(order: Order) -> None:
    world = world_of(order)
    refused = await get(world, "/me")
    assert (refused.status_code, refused.json()["code"]) == (401, "session.required")
    assert refused.headers.get_list("access-control-allow-origin") == [PAGES]
    assert refused.headers.get_list("access-control-allow-credentials") == ["true"]
    assert refused.headers["vary"].count("Origin") == 1
    strangers = await get(world, "/me", origin="https://strangers.test")
    assert "access-control-allow-origin" not in strangers.headers


@pytest.mark.parametrize("order", ORDERS)
async def test_so_can_a_refusal_before_the_application_is_asked(order: Order) -> None:
    store, options = fallible("store", Time())
    world = world_of(order, **options)
    browser = await world.signed_in()
    store.is_down = True
    refused = await browser.get("/me", headers=ORIGIN)
    assert refused.status_code == 503
    assert refused.headers["access-control-allow-origin"] == PAGES


@pytest.mark.parametrize("order", ORDERS)
async def test_so_can_an_http_exception_of_load_request_data(order: Order) -> None:
    def load_request_data(_context: object) -> None:
        raise HTTPException(418, "suspended", {"X-Reason": "suspended"})

    world = world_of(order, load_request_data=load_request_data)
    async with world.browser() as browser:
        await sign_in(browser, LOGIN_URL, user="alice")
        refused = await browser.get("/me", headers=ORIGIN)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (418, PAGES)
    assert (refused.json(), refused.headers["x-reason"]) == ({"detail": "suspended"}, "suspended")


async def test_a_trusted_page_of_another_site_without_a_session_is_told_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = "https://page.example"
    world = make_world(settings={"trusted_origins": [page]})
    world.app.get("/me", dependencies=[Depends(world.oidc.require_auth)])(lambda: None)
    headers = {"origin": page, "sec-fetch-mode": "cors", "sec-fetch-site": "same-site"}
    await world.browser().get("/me", headers=headers)
    assert "trusted_origins" not in caplog.text
    await world.browser().get("/me", headers=headers | {"sec-fetch-site": "cross-site"})
    assert f"a page of '{page}' has no session here" in caplog.text


@pytest.mark.parametrize(("method", "path"), [("GET", "/auth/login"), ("POST", "/auth/logout")])
async def test_a_script_that_fetches_what_leads_to_the_provider_is_told(
    method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    world, browser = await signed_in_world()
    headers = {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    if method == "POST":
        await (await world.signed_in()).post(path, headers=headers, data={"local": "1"})
    assert "fetch" not in caplog.text
    await browser.request(method, path, headers=headers)
    assert f"a script fetched {path}, whose response leads to the provider" in caplog.text
