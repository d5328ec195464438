"""Dependencies of a whole application or router guard its endpoints, and never the login."""

from typing import Any

import pytest
from fastapi import APIRouter, Depends, FastAPI

from fastapi_oidc import OIDC, OIDCMiddleware, require_auth
from fastapi_oidc.testing import sign_in
from tests.oidc.web.asking import begin
from tests.oidc.web.test_startup import start
from tests.oidc.world import BASE_URL, World, make_world


def application_guarded_by_the_module(oidc: OIDC[Any, Any]) -> FastAPI:
    app = FastAPI(dependencies=[Depends(require_auth)])
    app.include_router(oidc.router, prefix="/auth")
    return app


def router_around_the_library(oidc: OIDC[Any, Any]) -> FastAPI:
    outer = APIRouter(prefix="/auth", dependencies=[Depends(oidc.require(lambda _: True))])
    outer.include_router(oidc.router)
    app = FastAPI()
    app.include_router(outer, dependencies=[Depends(oidc.require_csrf)])
    return app


def inclusion_with_dependencies(oidc: OIDC[Any, Any]) -> FastAPI:
    app = FastAPI(dependencies=[Depends(_identity_of_everybody)])
    app.include_router(oidc.router, prefix="/auth", dependencies=[Depends(oidc.require_auth)])
    return app


def _identity_of_everybody(session: Any = Depends(require_auth)) -> object:
    return session.identity


APPLICATIONS = [
    application_guarded_by_the_module,
    router_around_the_library,
    inclusion_with_dependencies,
]


def world_of(make: Any, prefix: str) -> World:
    """A world whose application `make` has made, below `prefix`."""
    uris = {
        "redirect_uris": [f"{BASE_URL}{prefix}/auth/callback"],
        "post_logout_redirect_uris": [f"{BASE_URL}{prefix}/auth/logged-out"],
        "backchannel_logout_uri": f"{BASE_URL}{prefix}/auth/backchannel-logout",
    }
    world = make_world(client=uris, settings={"default_return_path": f"{prefix}/hello"})
    app = make(world.oidc)
    app.add_middleware(OIDCMiddleware, oidc=world.oidc)
    app.get("/hello", dependencies=[Depends(world.oidc.require_auth)])(lambda: "hello")
    world.app = app
    if prefix:
        world.app = FastAPI()
        world.app.mount(prefix, app)
    return world


@pytest.mark.parametrize("prefix", ["", "/shop"])
@pytest.mark.parametrize("make", APPLICATIONS)
async def test_a_person_signs_in_and_out_of_an_application_that_is_guarded_as_a_whole(
    make: Any, prefix: str
) -> None:
    world = world_of(make, prefix)
    async with world.browser() as browser:
        assert (await browser.get(f"{prefix}/hello")).status_code == 401
        page = await sign_in(browser, f"{prefix}/hello", user="alice")
        assert (page.status_code, page.json()) == (200, "hello")
        session = await browser.get(f"{prefix}/auth/session")
        assert session.json()["is_authenticated"] is True
        out = await browser.post(f"{prefix}/auth/logout", follow_redirects=False)
        assert out.headers["location"].startswith(f"{world.op.issuer}/end-session")
        assert (await browser.get(f"{prefix}/hello")).status_code == 401


async def test_every_endpoint_of_the_application_stays_guarded() -> None:
    """A path that only looks like the library's own is the application's."""
    world = make_world()
    app = FastAPI(dependencies=[Depends(world.oidc.require_auth)])
    app.add_middleware(OIDCMiddleware, oidc=world.oidc)
    app.include_router(world.oidc.router, prefix="/auth")
    paths = ["/", "/login", "/auth/login/more", "/auth/sessions", "/other/auth/login", "/auth"]
    for path in paths:
        app.get(path)(lambda: "reached")
    for path in paths:
        assert (await begin(app, path)).status_code == 401, path


@pytest.mark.parametrize("path", ["login", "callback", "session", "logged-out"])
async def test_a_scanner_of_links_uses_up_no_code(path: str) -> None:
    answer = await make_world().browser().head(f"/auth/{path}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


async def test_a_handler_beside_a_guard_is_open() -> None:
    oidc = make_world().oidc
    app = FastAPI(dependencies=[Depends(oidc.require_auth)])
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.add_route("/in", oidc.login_handler(), methods=["GET"])
    app.add_route("/auth/callback", oidc.callback_handler(), methods=["GET"])
    assert await start(app) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert (await begin(app, "/in")).status_code == 302


async def test_a_handler_behind_a_guard_sends_nobody_in_circles() -> None:
    oidc = make_world().oidc
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.get("/in", dependencies=[Depends(oidc.require_auth)])(oidc.login_handler())
    assert (await begin(app, "/in")).status_code == 401
