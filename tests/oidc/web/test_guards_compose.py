"""Several guards on one endpoint: one step-up for all, and never a loop.

The provider here sends `auth_time` and `acr` only when a login asks for them.
"""

from itertools import permutations
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Request

from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSession, PersistContext, require_auth
from fastapi_oidc.clock import DEFAULT_DRIFT
from fastapi_oidc.testing import AuthorizationRequested, sign_in
from fastapi_oidc.web.guards import FRESH_SECONDS
from tests.oidc.web.asking import begin
from tests.oidc.web.test_startup import start
from tests.oidc.world import World, make_world

PAGE = {"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}
AN_HOUR = 3600


def asked(world: World) -> list[dict[str, str]]:
    """The authentication that each login so far has asked for."""
    requests = world.op.record.of(AuthorizationRequested)
    names = ("max_age", "acr_values")
    return [{n: each.parameters[n] for n in names if n in each.parameters} for each in requests]


def terse(world: World) -> World:
    """The world, whose provider sends the claims only that the last login asked for."""

    def edit(claims: dict[str, Any]) -> dict[str, Any]:
        parameters = asked(world)[-1]
        said = dict(claims)
        if "max_age" not in parameters:
            del said["auth_time"]
        if "acr_values" in parameters:
            said["acr"] = parameters["acr_values"].split()[0]
        return said

    world.op.edits.put("id_token", edit)
    return world


def guards_of(oidc: OIDC[Any, Any]) -> dict[str, Any]:
    return {
        "hour": oidc.require_recent(AN_HOUR),
        "minutes": oidc.require_recent(300),
        "strong": oidc.require_acr("mfa", "hwk"),
        "stronger": oidc.require_acr("hwk"),
    }


COMBINATIONS = [
    names for count in (1, 2, 3) for names in permutations(guards_of(make_world().oidc), count)
]


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    guards = guards_of(oidc)
    for names in COMBINATIONS:
        first, *others = names
        path = "/" + "/".join(names)
        outer = APIRouter(prefix="/declared", dependencies=[Depends(guards[first])])
        last: Any = Depends(guards[names[-1]])

        @outer.get(path, dependencies=[Depends(guards[name]) for name in others])
        async def declared(session: OIDCSession[Any] = last) -> str:
            return session.sub

        @app.get("/called" + path)
        async def called(request: Request, names: str = ",".join(names)) -> str:
            sessions = [await guards[name](request) for name in names.split(",")]
            return str(sessions[0].sub)

        app.include_router(outer)


def mount_contrary(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    one, other = oidc.require_acr("mfa"), oidc.require_acr("hwk")
    app.get("/declared", dependencies=[Depends(one), Depends(other)])(lambda: None)

    @app.get("/called", dependencies=[Depends(other)])
    async def called(request: Request) -> None:
        await one(request)


async def opened(world: World, browser: httpx.AsyncClient, path: str) -> tuple[int, int]:
    """The status of the page for alice, and the number of logins until then."""
    before = len(asked(world))
    browser.headers.update(PAGE)
    answer = await sign_in(browser, path, user="alice")
    return answer.status_code, len(asked(world)) - before


async def test_no_combination_of_guards_loops() -> None:
    world = terse(make_world(mount=mount))
    browser = await world.signed_in()
    for names in COMBINATIONS:
        for kind, most in (("declared", 1), ("called", len(names))):
            path = f"/{kind}/" + "/".join(names)
            status, logins = await opened(world, browser, path)
            assert status == 200, path
            assert logins <= most, path
            assert await opened(world, browser, path) == (200, 0), path
        world.time.advance(400)


async def test_a_step_up_keeps_what_the_session_has_proved_to_other_pages() -> None:
    world = terse(make_world(mount=mount))
    browser = await world.signed_in()
    await opened(world, browser, "/declared/strong")
    assert await opened(world, browser, "/declared/minutes") == (200, 1)
    assert asked(world)[-1] == {"max_age": "300", "acr_values": "mfa hwk"}
    assert await opened(world, browser, "/declared/strong") == (200, 0)
    assert await opened(world, browser, "/declared/stronger") == (200, 1)
    assert asked(world)[-1] == {"max_age": "300", "acr_values": "hwk"}
    assert await opened(world, browser, "/declared/minutes") == (200, 0)


@pytest.mark.parametrize("path", ["/declared", "/called"])
async def test_guards_that_contradict_each_other_end_on_a_page(path: str) -> None:
    world = terse(make_world(mount=mount_contrary))
    browser = await world.signed_in()
    status, logins = await opened(world, browser, path)
    assert (status, logins <= 1) == (403, True)
    assert "no acr in common" in str(world.events[-1])


async def test_a_session_that_is_too_old_at_once_gets_a_page_and_later_another_login() -> None:
    """The provider's clock is slow, and the page comes two seconds after the login."""

    def slow(context: PersistContext[Any]) -> OIDCSession[Any]:
        world.time.advance(2)
        return context.session

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        app.get("/now", dependencies=[Depends(oidc.require_recent(1))])(lambda: "now")

    world = make_world(mount=mount, before_session_persist=slow)
    browser = await world.signed_in()
    now = world.time
    now.advance(100)
    world.op.edits.put("id_token", lambda said: said | {"auth_time": int(now.now) - DEFAULT_DRIFT})
    assert await opened(world, browser, "/now") == (403, 1)
    assert "and a step-up that asked for it left the session" in str(world.events[-1])
    answer = await browser.get("/now", headers={"sec-fetch-mode": "cors"})
    assert (answer.status_code, answer.json()["code"]) == (403, "session.forbidden")
    world.time.advance(FRESH_SECONDS)
    assert await opened(world, browser, "/now") == (403, 1)


def guarded_by_the_module(oidc: OIDC[Any, Any]) -> FastAPI:
    app = FastAPI(dependencies=[Depends(require_auth)])
    app.include_router(oidc.router, prefix="/auth")
    return app


def router_around_the_library(oidc: OIDC[Any, Any]) -> FastAPI:
    outer = APIRouter(prefix="/auth", dependencies=[Depends(oidc.require(lambda _: True))])
    outer.include_router(oidc.router)
    app = FastAPI()
    app.include_router(outer, dependencies=[Depends(oidc.require_csrf)])
    return app


@pytest.mark.parametrize("make", [guarded_by_the_module, router_around_the_library])
async def test_a_person_signs_in_and_out_of_an_application_that_is_guarded_as_a_whole(
    make: Any,
) -> None:
    world = make_world(settings={"default_return_path": "/hello"})
    world.app = app = make(world.oidc)
    app.add_middleware(OIDCMiddleware, oidc=world.oidc)
    app.get("/hello", dependencies=[Depends(world.oidc.require_auth)])(lambda: "hello")
    async with world.browser() as browser:
        assert (await browser.get("/hello")).status_code == 401
        page = await sign_in(browser, "/hello", user="alice")
        assert (page.status_code, page.json()) == (200, "hello")
        assert (await browser.get("/auth/session")).json()["is_authenticated"] is True
        out = await browser.post("/auth/logout", follow_redirects=False)
        assert out.headers["location"].startswith(f"{world.op.issuer}/end-session")
        assert (await browser.get("/hello")).status_code == 401


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
