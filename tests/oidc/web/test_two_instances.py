"""Two providers in one app: what one instance refuses, it answers itself."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from fastapi_oidc import (
    OIDC,
    Event,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    SessionError,
    require_auth,
)
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, sign_in
from tests.oidc.world import BASE_URL

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}
ORDERS = pytest.mark.parametrize("order", [("staff", "partners"), ("partners", "staff")])


@dataclass
class TwoProviders:
    """An app whose users are alice, of the staff, and carol, a partner."""

    app: FastAPI = field(default_factory=FastAPI)
    providers: dict[str, DevProvider] = field(default_factory=dict)
    instances: dict[str, OIDC[Any, Any]] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[httpx.AsyncClient]:
        mounts = {op.issuer: httpx.ASGITransport(op.app) for op in self.providers.values()}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app),
            base_url=BASE_URL,
            mounts=mounts,
            follow_redirects=True,
        ) as browser:
            yield browser


def two_providers(order: Sequence[str]) -> TwoProviders:
    """The middlewares are added in this order."""
    world = TwoProviders()
    for name in ("staff", "partners"):
        _add_instance(world, name, user={"staff": "alice", "partners": "carol"}[name])
    for name in order:
        world.app.add_middleware(OIDCMiddleware, oidc=world.instances[name])
    _mount_pages(world)
    return world


def _add_instance(world: TwoProviders, name: str, user: str) -> None:
    secret = secrets.token_urlsafe(32)
    client = DevClient(
        client_id="app", client_secret=secret, redirect_uris=[f"{BASE_URL}/{name}/callback"]
    )
    op = DevProvider(users=[DevUser(user)], clients=[client], issuer=f"https://{name}.op.test")
    settings = OIDCSettings(
        name=name,
        issuer=op.issuer,
        client_id="app",
        client_secret=secret,
        cookie_secret=secrets.token_urlsafe(32),
        base_url=BASE_URL,
    )
    world.events[name] = []
    world.providers[name] = op
    world.instances[name] = OIDC(
        settings, transport=httpx.ASGITransport(op.app), on_event=world.events[name].append
    )
    world.app.include_router(world.instances[name].router, prefix=f"/{name}")


def _mount_pages(world: TwoProviders) -> None:
    staff, partners = world.instances["staff"], world.instances["partners"]

    @world.app.get("/unclear")
    async def unclear(_session: OIDCSession[Any] = Depends(require_auth)) -> None: ...

    @world.app.get("/both")
    async def both(
        one: OIDCSession[Any] = Depends(staff.require_auth),
        other: OIDCSession[Any] = Depends(partners.require_auth),
    ) -> list[str]:
        return [one.sub, other.sub]

    for name, instance in world.instances.items():

        @world.app.get(f"/{name}-page")
        async def page(
            session: OIDCSession[Any] = Depends(instance.require_auth),
        ) -> str:
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


async def test_the_module_level_dependency_asks_which_instance() -> None:
    async with two_providers(("staff", "partners")).browser() as browser:
        answer = await browser.get("/unclear")
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.instance_ambiguous")
