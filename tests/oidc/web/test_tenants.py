"""Tenants: each request is served by the instance of its tenant, which is found at run time."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Form, Request
from fastapi.responses import RedirectResponse
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient

from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    OIDCLocals,
    OIDCSession,
    OIDCSettings,
    OIDCTenants,
)
from fastapi_oidc.testing import sign_in
from tests.oidc.interleaving import Held, begun
from tests.oidc.web.several_providers import SeveralProviders
from tests.oidc.world import BASE_URL

PAGE = {"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}
USERS = {"acme": "alice", "globex": "carol"}
Lookup = Callable[["Tenants", HTTPConnection], Any]


def by_host(world: Tenants, connection: HTTPConnection) -> OIDCSettings | None:
    return world.settings.get((connection.url.hostname or "").partition(".")[0])


def by_path(world: Tenants, connection: HTTPConnection) -> OIDCSettings | None:
    return world.settings.get(connection.url.path.split("/")[1])


def by_cookie(world: Tenants, connection: HTTPConnection) -> OIDCSettings | None:
    return world.settings.get(connection.cookies.get("tenant", ""))


@dataclass
class Tenants(SeveralProviders):
    """An application whose tenants are acme, with alice, and globex, with carol."""

    lookup: Lookup = by_host
    prefix: str = ""
    settings: dict[str, OIDCSettings] = field(default_factory=dict)
    made: list[OIDC[Any, Any]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    tenants: OIDCTenants[Any, Any] = field(init=False)

    def url(self, name: str) -> str:
        """Where the tenant is."""
        if self.lookup is by_host:
            return f"https://{name}.app.test"
        return BASE_URL + self.prefix.replace("{tenant}", name)

    def create(self, settings: OIDCSettings) -> OIDC[Any, Any]:
        oidc = self.instance(settings, back_channel_logout_store="memory")
        close = oidc.aclose

        async def noted() -> None:
            self.closed.append(settings.name)
            await close()

        oidc.aclose = noted  # type: ignore[method-assign]
        self.made.append(oidc)
        return oidc


def add_tenant(world: Tenants, name: str, cookie_secret: str) -> None:
    base = world.url(name)
    world.settings[name] = world.new_provider(
        name,
        USERS[name],
        f"{base}/auth",
        cookie_secret=cookie_secret,
        base_url="/".join(base.split("/")[:3]),
        default_return_path=world.prefix.replace("{tenant}", name) + "/public",
    )


def tenants_of(lookup: Lookup = by_host, prefix: str = "", **options: Any) -> Tenants:
    world = Tenants(lookup=lookup, prefix=prefix)
    cookie_secret = secrets.token_urlsafe(32)
    for name in USERS:
        add_tenant(world, name, cookie_secret)
    options.setdefault("create", world.create)
    world.tenants = tenants = OIDCTenants(lambda found: lookup(world, found), **options)
    world.app.add_middleware(tenants.middleware)
    world.app.include_router(tenants.router, prefix=f"{prefix}/auth")
    _mount_pages(world)
    return world


def _mount_pages(world: Tenants) -> None:
    app, tenants, prefix = world.app, world.tenants, world.prefix

    @app.get(f"{prefix}/page")
    async def page(
        request: Request, session: OIDCSession[Any] = Depends(tenants.require_auth)
    ) -> list[str]:
        current = tenants.current(request)
        assert current is not None
        return [session.sub, current.settings.name]

    @app.get(f"{prefix}/public")
    async def public(locals: OIDCLocals[Any, Any] = Depends(tenants.locals)) -> str | None:
        return locals.session.sub if locals.session else None

    is_alice = tenants.guard(lambda oidc: oidc.require(lambda user: user.sub == "alice"))

    @app.get(f"{prefix}/alices", dependencies=[Depends(is_alice)])
    async def alices() -> None: ...

    @app.post(f"{prefix}/change", dependencies=[Depends(tenants.require_csrf)])
    async def change() -> None: ...

    @app.post("/choose")
    async def choose(tenant: str = Form()) -> RedirectResponse:
        response = RedirectResponse("/page", 303)
        response.set_cookie("tenant", tenant, secure=True, httponly=True, samesite="lax")
        return response


WAYS = pytest.mark.parametrize(("lookup", "prefix"), [(by_host, ""), (by_path, "/{tenant}")])


@WAYS
async def test_each_tenant_signs_in_at_its_own_provider(lookup: Lookup, prefix: str) -> None:
    world = tenants_of(lookup, prefix)
    async with world.browser() as browser:
        for name, user in USERS.items():
            page = await sign_in(browser, f"{world.url(name)}/page", user=user)
            assert page.json() == [user, name]
            assert (await browser.get(f"{world.url(name)}/public")).json() == user
        assert (await browser.get(f"{world.url('acme')}/page")).json() == ["alice", "acme"]


async def test_a_form_chooses_the_tenant() -> None:
    world = tenants_of(by_cookie)
    async with world.browser() as browser:
        answer = await browser.post(
            "https://app.test/choose", data={"tenant": "globex"}, headers=PAGE
        )
        page = await sign_in(browser, str(answer.history[-1].url), user="carol")
        page = await browser.get("https://app.test/page")
        assert page.json() == ["carol", "globex"]


@WAYS
async def test_a_session_of_one_tenant_is_none_of_another(lookup: Lookup, prefix: str) -> None:
    world = tenants_of(lookup, prefix)
    async with world.browser() as browser:
        await sign_in(browser, f"{world.url('acme')}/page", user="alice")
        value = browser.cookies["__Host-acme_session"]
        cookies = f"__Host-acme_session={value}; __Host-globex_session={value}"
        page = await browser.get(f"{world.url('globex')}/page", headers={"cookie": cookies})
        assert page.status_code == 401


@WAYS
async def test_a_request_of_no_tenant_has_nobody(lookup: Lookup, prefix: str) -> None:
    world = tenants_of(lookup, prefix)
    async with world.browser() as browser:
        base = world.url("nobody")
        assert (await browser.get(f"{base}/public")).json() is None
        for path in ("/page", "/alices", "/auth/login", "/auth/callback?state=1"):
            assert (await browser.get(base + path)).status_code == 404
        assert (await browser.post(f"{base}/change")).status_code == 404


@WAYS
async def test_guards_and_sign_outs_are_those_of_the_tenant(lookup: Lookup, prefix: str) -> None:
    world = tenants_of(lookup, prefix)
    async with world.browser() as browser:
        base = world.url("globex")
        await sign_in(browser, f"{base}/page", user="carol")
        assert (await browser.get(f"{base}/alices")).status_code == 403
        assert (await browser.post(f"{base}/change")).status_code == 403
        token = (await browser.get(f"{base}/auth/session")).json()["csrf_token"]
        changed = await browser.post(f"{base}/change", headers={"X-CSRF-Token": token})
        assert changed.status_code == 200
        out = await browser.post(f"{base}/auth/logout")
        assert (out.status_code, str(out.url)) == (200, f"{base}/public")
        assert (await browser.get(f"{base}/page")).status_code == 401


async def test_a_provider_ends_sessions_of_its_tenant() -> None:
    world = tenants_of()
    async with world.browser() as browser:
        for name, user in USERS.items():
            await sign_in(browser, f"{world.url(name)}/page", user=user)
        await world.ops["acme"].log_out("alice")
        statuses = [(await browser.get(f"{world.url(name)}/page")).status_code for name in USERS]
        assert statuses == [401, 200]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/auth/backchannel-logout", 405),
        ("GET", "/auth/frontchannel-logout", 404),
        ("POST", "/auth/callback", 405),
        ("GET", "/auth/logout", 405),
        ("GET", "/auth/choose-provider", 404),
    ],
)
async def test_a_route_that_a_tenant_lacks(method: str, path: str, status: int) -> None:
    world = tenants_of()
    async with world.browser() as browser:
        answer = await browser.request(method, world.url("acme") + path)
        assert answer.status_code == status


async def test_resolve_may_be_async_and_give_a_ready_instance() -> None:
    world = tenants_of()
    ready = world.create(world.settings["acme"])

    async def resolve(_: HTTPConnection) -> OIDC[Any, Any]:
        return ready

    app = FastAPI()
    tenants = OIDCTenants(resolve)
    app.add_middleware(tenants.middleware)
    app.include_router(tenants.router, prefix="/auth")

    @app.get("/page", dependencies=[Depends(tenants.require_auth)])
    async def page() -> None: ...

    world.app = app
    async with world.browser() as browser:
        answer = await sign_in(browser, f"{world.url('acme')}/page", user="alice")
        assert answer.status_code == 200
    await tenants.aclose()
    assert world.closed == []


async def test_a_tenant_that_does_not_respond_holds_up_no_other() -> None:
    world = tenants_of(maximum=1)
    held = Held()
    world.ops["acme"].faults.put("metadata", held)
    async with world.browser() as browser, world.browser() as other:
        waiting = begun(browser.get(f"{world.url('acme')}/auth/login", follow_redirects=False))
        await held.gate.until_reached()
        page = await sign_in(other, f"{world.url('globex')}/page", user="carol")
        assert page.status_code == 200
        assert world.closed == []  # one may stay open beside acme's, which is in use
        held.gate.opened.set()
        assert (await waiting).status_code == 302


async def test_an_instance_is_made_once_and_closed_for_another() -> None:
    world = tenants_of(maximum=1)
    async with world.browser() as browser:
        acme, globex = (f"{world.url(name)}/public" for name in USERS)
        await asyncio.gather(*(browser.get(acme) for _ in range(5)))
        assert len(world.made) == 1
        await browser.get(globex)
        await browser.get(acme)
    assert [oidc.settings.name for oidc in world.made] == ["acme", "globex", "acme"]
    await world.tenants.aclose()
    assert world.closed == ["acme", "globex", "acme"]


async def test_changed_settings_take_effect_at_the_next_request() -> None:
    world = tenants_of()
    async with world.browser() as browser:
        await sign_in(browser, f"{world.url('acme')}/page", user="alice")
        changed = world.settings["acme"].model_copy(update={"scope": ("openid", "phone")})
        world.settings["acme"] = changed
        sent = await browser.get(f"{world.url('acme')}/auth/login", follow_redirects=False)
        assert "phone" in sent.headers["location"]
        assert (await browser.get(f"{world.url('acme')}/page")).status_code == 200


def test_all_are_closed_with_the_application() -> None:
    world = tenants_of()
    with TestClient(world.app) as client:
        for name in USERS:
            client.get(f"{world.url(name)}/public")
    assert sorted(world.closed) == sorted(USERS)


async def test_an_error_in_one_tenants_settings_is_its_own() -> None:
    def create(settings: OIDCSettings) -> OIDC[Any, Any]:
        if settings.name == "acme":
            raise ConfigurationError(Code.CONFIGURATION_INVALID)
        return world.create(settings)

    world = tenants_of(create=create)
    async with world.browser() as browser:
        with pytest.raises(ConfigurationError):
            await browser.get(f"{world.url('acme')}/public")
        assert (await browser.get(f"{world.url('globex')}/public")).status_code == 200


def test_at_least_one_instance_stays_open() -> None:
    with pytest.raises(ConfigurationError):
        OIDCTenants(lambda _: None, maximum=0)


async def test_usual_instances_load_the_certificate_authorities_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[ssl.SSLContext] = []

    def load() -> ssl.SSLContext:
        loaded.append(ssl.create_default_context())
        return loaded[-1]

    monkeypatch.setattr(httpx, "create_ssl_context", load)
    world = tenants_of(create=None)
    async with world.browser() as browser:
        for name in USERS:
            assert (await browser.get(f"{world.url(name)}/public")).status_code == 200
    await world.tenants.aclose()
    assert len(loaded) == 1
