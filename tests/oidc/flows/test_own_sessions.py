"""What an endpoint changes of its session is its request's own, wherever it came from."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, IdentityContext, OIDCMiddleware, OIDCSession, SignedIn
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.test_cancelled_requests import to_callback
from tests.oidc.flows.test_refresh import LONG_AFTER
from tests.oidc.interleaving import Held, begun
from tests.oidc.session.plain_stores import PlainSessionStore
from tests.oidc.world import BASE_URL, World, make_world

IDLE = 600
AS_IT_IS = {"roles": ["reader"], "note": None}


def resolve(_context: IdentityContext) -> dict[str, Any]:
    return {"roles": ["reader"]}


def seen_in(session: OIDCSession[Any]) -> dict[str, Any]:
    return {"roles": [*session.identity["roles"]], "note": session.claims.get("note")}


def change(session: OIDCSession[Any]) -> None:
    session.identity["roles"].append("admin")
    session.claims["note"] = "of one request"


class Place:
    """An application with an endpoint that changes its session, and one that looks afterwards."""

    def __init__(self, store: Any, **settings: Any) -> None:
        self.changed = asyncio.Event()
        self.world = make_world(
            resolve_identity=resolve, mount=self.mount, session_store=store, settings=settings
        )

    def mount(self, app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/change")
        async def change_it(request: Request) -> None:
            change(await oidc.require_auth(request))
            self.changed.set()

        @app.get("/look")
        async def look(request: Request) -> object:
            session = await oidc.require_auth(request)
            await self.changed.wait()
            return seen_in(session)

    async def change(self, browser: httpx.AsyncClient) -> None:
        assert (await browser.get("/change")).status_code == 200

    async def look(self, browser: httpx.AsyncClient) -> object:
        return (await browser.get("/look")).json()


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.param)


def copy_of(browser: httpx.AsyncClient, world: World) -> httpx.AsyncClient:
    copy = world.browser()
    copy.cookies.update(dict(browser.cookies))
    return copy


async def test_requests_that_wait_for_one_refresh(place: Place) -> None:
    browser, held = await place.world.signed_in(), Held()
    old = copy_of(browser, place.world)
    place.world.op.faults.put("token", held)
    place.world.time.advance(LONG_AFTER)
    changing, looking = [begun(browser.get(path)) for path in ("/change", "/look")]
    await held.gate.until_reached()
    held.gate.opened.set()
    await changing
    assert (await looking).json() == AS_IT_IS
    assert await place.look(old) == AS_IT_IS, "of the successor that is remembered"
    assert await place.look(browser) == AS_IT_IS, "of the successor that was sealed"


@pytest.mark.parametrize("store", [None, "memory"], ids=["cookie", "store"])
async def test_a_request_that_is_written_as_a_use(store: Any) -> None:
    place = Place(store, idle_timeout=IDLE)
    browser = await place.world.signed_in()
    place.world.time.advance(IDLE / 5)
    await place.change(browser)
    assert await place.look(browser) == AS_IT_IS


@pytest.mark.parametrize("store", [None, "memory"], ids=["cookie", "store"])
async def test_a_login_and_a_reload_of_it(store: Any) -> None:
    place, seen = Place(store), []

    def note(_request: Request, signed_in: SignedIn[Any]) -> None:
        seen.append(seen_in(signed_in.session))
        change(signed_in.session)
        place.changed.set()

    world = place.world
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=world.oidc)
    app.get("/auth/login")(world.oidc.login_handler())
    app.get("/auth/callback")(world.oidc.callback_handler(on_success=note))
    first, again = [world.op.browser(app, base_url=BASE_URL) for _ in range(2)]
    callback = await to_callback(first)
    again.cookies.update(dict(first.cookies))
    for browser in (first, again):
        await browser.get(callback, follow_redirects=False)
        assert await place.look(copy_of(browser, world)) == AS_IT_IS
    assert seen == [AS_IT_IS] * len(seen)


async def test_an_identity_that_cannot_be_written_is_the_business_of_its_store() -> None:
    class Account:
        pass

    def resolve(_context: IdentityContext) -> Any:
        return Account()

    seen: list[object] = []
    world = make_world(
        resolve_identity=resolve,
        session_store=PlainSessionStore(),
        load_request_data=lambda context: seen.append(context.session.identity),
    )
    browser = world.browser()
    await sign_in(browser, "/auth/login?return_to=/", user="alice")
    assert (await browser.get("/")).json() == {"is_authenticated": True}
    assert [type(identity) for identity in seen] == [Account] * len(seen)
    assert seen
