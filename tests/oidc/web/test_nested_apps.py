"""An application inside of another, and instances inside of each other."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

import pytest
from fastapi import Depends, FastAPI
from fastapi.middleware.cors import CORSMiddleware

from fastapi_oidc import OIDC, Code, ConfigurationError, OIDCMiddleware
from tests.oidc.web.asking import begin, who
from tests.oidc.world import make_world


def with_a_shop(app: FastAPI, oidc: OIDC[Any, Any]) -> FastAPI:
    shop = FastAPI()
    shop.get("/")(lambda: "open to all")
    shop.get("/auth/login")(who(oidc))
    app.mount("/shop", shop)
    return shop


def with_a_guarded_shop(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    with_a_shop(app, oidc).add_middleware(OIDCMiddleware, oidc=oidc)


async def test_who_comes_to_an_app_that_is_mounted_inside_is_led_to_the_outer_login() -> None:
    async with make_world(mount=with_a_guarded_shop).browser() as browser:
        browser.headers["accept"] = "text/html"
        visited = await browser.get("/shop/auth/login?a=b", follow_redirects=False)
        back = quote_plus("/shop/auth/login?a=b")
        assert visited.headers["location"] == f"/auth/login?return_to={back}"


@pytest.mark.parametrize("exclude", [[], ["/shop"]])
async def test_where_the_routes_are_is_not_learned_from_an_app_that_is_mounted_inside(
    exclude: list[str],
) -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        with_a_shop(app, oidc)

    world = make_world(mount=mount, middleware={"exclude": exclude})
    async with world.browser() as browser:
        opened = await browser.get("/shop/")
        assert opened.headers.get("vary") == (None if exclude else "Cookie")
        headers = {"accept": "text/html"}
        answer = await browser.get("/me", headers=headers, follow_redirects=False)
        assert answer.headers["location"] == "/auth/login?return_to=%2Fme"


async def test_two_instances_of_one_name_are_refused() -> None:
    world = make_world()
    world.app.add_middleware(OIDCMiddleware, oidc=make_world().oidc)
    answer = await begin(world.app, "/")
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.instance_ambiguous")


async def test_a_middleware_around_the_app_is_told_where_it_belongs() -> None:
    with pytest.raises(ConfigurationError, match="add_middleware"):
        await begin(OIDCMiddleware(CORSMiddleware(FastAPI()), make_world().oidc), "/")  # type: ignore[arg-type]  # the mistake


async def test_a_guard_in_a_mounted_application_without_middleware_says_what_to_add() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        inner = FastAPI()

        @inner.get("/guarded", dependencies=[Depends(oidc.require_auth)])
        async def guarded() -> None: ...

        app.mount("/inner", inner)

    async with make_world(mount=mount).browser() as browser:
        with pytest.raises(ConfigurationError, match="add OIDCMiddleware to the mounted") as caught:
            await browser.get("/inner/guarded")
    assert caught.value.code is Code.CONFIGURATION_MIDDLEWARE_MISSING
