"""Two providers in one app: what one instance refuses, it answers itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import Depends, Request
from fastapi.responses import JSONResponse

from fastapi_oidc import OIDC, Event, OIDCMiddleware, OIDCSession, SessionError
from fastapi_oidc.testing import sign_in
from tests.oidc.web.several_providers import SeveralProviders
from tests.oidc.world import BASE_URL

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}
ORDERS = pytest.mark.parametrize("order", [("staff", "partners"), ("partners", "staff")])


@dataclass
class TwoProviders(SeveralProviders):
    """An app whose users are alice, of the staff, and carol, a partner."""

    instances: dict[str, OIDC[Any, Any]] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)


def two_providers(order: Sequence[str]) -> TwoProviders:
    """The middlewares are added in this order."""
    world = TwoProviders()
    for name, user in {"staff": "alice", "partners": "carol"}.items():
        settings = world.new_provider(name, user, f"{BASE_URL}/{name}")
        world.events[name] = []
        world.instances[name] = world.oidc(settings, on_event=world.events[name].append)
        world.app.include_router(world.instances[name].router, prefix=f"/{name}")
    for name in order:
        world.app.add_middleware(OIDCMiddleware, oidc=world.instances[name])
    _mount_pages(world)
    return world


def _mount_pages(world: TwoProviders) -> None:
    staff, partners = world.instances["staff"], world.instances["partners"]

    @world.app.get("/both")
    async def both(
        one: OIDCSession[Any] = Depends(staff.require_auth),
        other: OIDCSession[Any] = Depends(partners.require_auth),
    ) -> list[str]:
        return [one.sub, other.sub]

    for name, instance in world.instances.items():

        @world.app.get(f"/{name}-page")
        async def page(session: OIDCSession[Any] = Depends(instance.require_auth)) -> str:
            return session.sub

        @world.app.get(f"/{name}-admin", dependencies=[Depends(instance.require(lambda _: False))])
        async def admin() -> None: ...


@ORDERS
@pytest.mark.parametrize("name", ["staff", "partners"])
async def test_a_page_leads_to_the_login_of_the_instance_that_guards_it(
    order: Sequence[str], name: str
) -> None:
    world = two_providers(order)
    async with world.browser() as browser:
        answer = await browser.get(f"/{name}-page", headers=NAVIGATION, follow_redirects=False)
        assert answer.headers["location"].startswith(f"/{name}/login?")
        script = await browser.get(f"/{name}-page")
        assert script.headers["www-authenticate"].startswith(f'Cookie realm="{name}"')


@ORDERS
async def test_a_page_with_two_guards_is_reached_by_signing_in_twice(order: Sequence[str]) -> None:
    world = two_providers(order)
    async with world.browser() as browser:
        first = await browser.get("/both", headers=NAVIGATION, follow_redirects=False)
        assert first.headers["location"].startswith("/staff/login?")
        await sign_in(browser, "/staff/login", user="alice")
        second = await browser.get("/both", headers=NAVIGATION, follow_redirects=False)
        assert second.headers["location"].startswith("/partners/login?")
        await sign_in(browser, "/partners/login", user="carol")
        assert (await browser.get("/both")).json() == ["alice", "carol"]


@ORDERS
async def test_the_refusal_is_an_event_of_the_instance_that_refused(order: Sequence[str]) -> None:
    world = two_providers(order)
    async with world.browser() as browser:
        await sign_in(browser, "/partners/login", user="carol")
        page = await browser.get("/partners-admin", headers=NAVIGATION)
    assert page.status_code == 403
    assert world.events["partners"][-1].name == "request.refused"
    assert world.events["staff"] == []


@ORDERS
async def test_a_handler_of_the_application_sees_whose_error_it_is(order: Sequence[str]) -> None:
    world = two_providers(order)

    @world.app.exception_handler(SessionError)
    async def refuse(_request: Request, error: SessionError) -> JSONResponse:
        return JSONResponse({"instance": error.instance}, error.status)

    async with world.browser() as browser:
        for name in ("staff", "partners"):
            assert (await browser.get(f"/{name}-page")).json() == {"instance": name}


@ORDERS
async def test_a_refused_callback_is_answered_by_its_instance(order: Sequence[str]) -> None:
    world = two_providers(order)
    async with world.browser() as browser:
        page = await browser.get("/staff/callback?state=x&code=y", headers=NAVIGATION)
    assert page.status_code == 400
    assert "/staff/login" in page.text


async def test_two_instances_do_not_see_each_other() -> None:
    world = two_providers(("staff", "partners"))
    async with world.browser() as browser:
        await sign_in(browser, "/staff/login?return_to=/staff-page", user="alice")
        assert (await browser.get("/staff-page")).json() == "alice"
        assert (await browser.get("/partners-page")).status_code == 401

        await sign_in(browser, "/partners/login?return_to=/partners-page", user="carol")
        assert (await browser.get("/partners-page")).json() == "carol"

        await browser.post("/staff/logout", data={"local": "1"})
        assert (await browser.get("/staff-page")).status_code == 401
        assert (await browser.get("/partners-page")).json() == "carol"


async def test_a_transaction_of_one_instance_is_none_of_the_other() -> None:
    world = two_providers(("staff", "partners"))
    async with world.browser() as browser:
        begun = await browser.get("/staff/login", follow_redirects=False)
        url = begun.headers["location"] + "&login_hint=alice"
        callback = (await browser.get(url, follow_redirects=False)).headers["location"]
        answer = await browser.get(callback.replace("/staff/", "/partners/"))
        assert answer.json()["code"] == "authorization.transaction_missing"
