"""Two providers in one app: what one instance refuses, it answers itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from fastapi import Depends, FastAPI, Request

from fastapi_oidc import OIDC, OIDCMiddleware, OIDCSession
from fastapi_oidc.testing import ServerError, sign_in
from tests.oidc.web.asking import begin
from tests.oidc.web.several_providers import SeveralProviders
from tests.oidc.world import BASE_URL

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}
ORDERS = pytest.mark.parametrize("order", [("staff", "partners"), ("partners", "staff")])


@dataclass
class TwoProviders(SeveralProviders):
    """An app whose users are alice, of the staff, and carol, a partner."""

    instances: dict[str, OIDC[Any, Any]] = field(default_factory=dict)


def two_providers(order: Sequence[str]) -> TwoProviders:
    """The middlewares are added in this order."""
    world = TwoProviders()
    for name, user in {"staff": "alice", "partners": "carol"}.items():
        settings = world.new_provider(name, user, f"{BASE_URL}/{name}")
        world.instances[name] = world.oidc(settings)
        world.app.include_router(world.instances[name].router, prefix=f"/{name}")
    for name in order:
        world.app.add_middleware(OIDCMiddleware, oidc=world.instances[name])
    _mount_pages(world)
    return world


def _mount_pages(world: TwoProviders) -> None:

    for name, instance in world.instances.items():

        @world.app.get(f"/{name}-page")
        async def page(session: OIDCSession[Any] = Depends(instance.require_auth)) -> str:
            return session.sub

        @world.app.get(f"/{name}-guest")
        async def guest(_: OIDCSession[Any] | None = Depends(instance.optional_user)) -> None: ...


@ORDERS
@pytest.mark.parametrize("name", ["staff", "partners"])
async def test_a_page_leads_to_the_login_of_its_guard(order: Sequence[str], name: str) -> None:
    world = two_providers(order)
    async with world.browser() as browser:
        answer = await browser.get(f"/{name}-page", headers=NAVIGATION, follow_redirects=False)
        assert answer.headers["location"].startswith(f"/{name}/login?")
        script = await browser.get(f"/{name}-page")
        assert script.headers["www-authenticate"].startswith(f'Cookie realm="{name}"')


@ORDERS
@pytest.mark.parametrize("path", ["/staff-guest", "/staff/session"])
async def test_what_one_instance_lacks_is_told_by_it(order: Sequence[str], path: str) -> None:
    world = two_providers(order)
    async with world.browser() as browser:
        await sign_in(browser, "/staff/login?return_to=/staff-page", user="alice")
        world.time.advance(3600)
        world.ops["staff"].faults.put("token", ServerError(), times=9)
        answer = await browser.get(path, headers=NAVIGATION)
    assert answer.status_code == 503
    assert "/staff/login" in answer.text
    assert "/partners/login" not in answer.text


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


async def test_a_guard_of_a_namesake_is_refused_whichever_way_it_is_used() -> None:
    world = SeveralProviders()
    users = {"partners": "carol", "staff": "alice"}
    partners, staff = (
        world.oidc(world.new_provider(name, user, BASE_URL), name="oidc")
        for name, user in users.items()
    )
    world.app.add_middleware(OIDCMiddleware, oidc=partners)
    world.app.include_router(partners.router, prefix="/auth")

    @world.app.get("/awaited")
    async def awaited(request: Request) -> str:
        return (await staff.require_auth(request)).sub

    async with world.browser() as browser:
        await sign_in(browser, "/auth/login", user="carol")
        assert (await browser.get("/awaited")).json()["code"] == "configuration.instance_ambiguous"

    def guarded_by(guard: Any) -> FastAPI:
        app = FastAPI()
        app.add_middleware(OIDCMiddleware, oidc=partners)

        @app.get("/staff")
        async def secret(_: Any = Depends(guard)) -> None: ...

        return app

    replaced = guarded_by(staff.require_auth)
    replaced.dependency_overrides[staff.require_auth] = lambda: None
    assert (await begin(replaced, "/staff")).status_code == 200
    for guard in (staff.require_auth, staff.require(lambda _: True), staff.optional_user):
        refused = await begin(guarded_by(guard), "/staff")
        assert refused.json()["code"] == "configuration.instance_ambiguous"
