"""Registrations that a function finds: each request is served by its tenant's."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI
from starlette.requests import HTTPConnection

from fastapi_oidc import (
    OIDC,
    Caller,
    ConfigurationError,
    OIDCLocals,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    ProviderError,
    registrations,
)
from fastapi_oidc.grants import TokenAuth
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.steps import callback_url
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


@dataclass
class Tenants(SeveralProviders):
    """An application whose tenants are acme, with alice, and globex, with carol."""

    lookup: Lookup = by_host
    prefix: str = ""
    settings: dict[str, OIDCSettings] = field(default_factory=dict)
    instance: OIDC[Any, Any] = field(init=False)

    def url(self, name: str) -> str:
        """Where the tenant is."""
        if self.lookup is not by_path:
            return f"https://{name}.app.test"
        return BASE_URL + self.prefix.replace("{registration}", name)


def add_tenant(world: Tenants, name: str, cookie_secret: str) -> None:
    base = world.url(name)
    world.settings[name] = world.new_provider(
        name,
        USERS[name],
        f"{base}/auth",
        cookie_secret=cookie_secret,
        base_url="/".join(base.split("/")[:3]),
        default_return_path=world.prefix.replace("{registration}", name) + "/public",
    )


def tenants_of(lookup: Lookup = by_host, prefix: str = "", **options: Any) -> Tenants:
    world = Tenants(lookup=lookup, prefix=prefix)
    cookie_secret = secrets.token_urlsafe(32)
    for name in USERS:
        add_tenant(world, name, cookie_secret)
    options.setdefault("back_channel_logout_store", "memory")

    async def find(connection: HTTPConnection) -> OIDCSettings | None:
        found: OIDCSettings | None = lookup(world, connection)
        return found

    world.instance = world.oidc(find, **options)
    world.app.add_middleware(OIDCMiddleware, oidc=world.instance)
    world.app.include_router(world.instance.router, prefix=f"{prefix}/auth")
    _mount_pages(world)
    return world


def _mount_pages(world: Tenants) -> None:
    app, oidc, prefix = world.app, world.instance, world.prefix.replace("registration", "name")

    @app.get(f"{prefix}/page")
    async def page(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> list[str]:
        assert oidc.settings_of(session) == oidc.settings
        return [session.sub, oidc.settings.name]

    @app.get(f"{prefix}/public")
    async def public(locals: OIDCLocals[Any, Any] = Depends(oidc.locals)) -> str | None:
        return locals.session.sub if locals.session else None

    @app.get(f"{prefix}/alices", dependencies=[Depends(oidc.require(lambda u: u.sub == "alice"))])
    async def alices() -> None: ...

    @app.get(f"{prefix}/recent", dependencies=[Depends(oidc.require_recent(300))])
    async def recent() -> None: ...

    @app.post(f"{prefix}/change", dependencies=[Depends(oidc.require_csrf)])
    async def change() -> None: ...


WAYS = pytest.mark.parametrize(("lookup", "prefix"), [(by_host, ""), (by_path, "/{registration}")])


@WAYS
async def test_each_tenant_signs_in_at_its_own_provider(lookup: Lookup, prefix: str) -> None:
    world = tenants_of(lookup, prefix)
    async with world.browser() as browser:
        for name, user in USERS.items():
            page = await sign_in(browser, f"{world.url(name)}/page", user=user)
            assert page.json() == [user, name]
            assert (await browser.get(f"{world.url(name)}/public")).json() == user
        assert (await browser.get(f"{world.url('acme')}/page")).json() == ["alice", "acme"]
    assert [op.record.calls["metadata"] for op in world.ops.values()] == [1, 1]


@pytest.mark.parametrize(("member", "other"), [("name", "evil"), ("base_url", "https://evil.test")])
async def test_the_applications_token_of_a_tenant_is_worth_nothing_to_its_namesake(
    member: str, other: str
) -> None:
    world = tenants_of()
    acme = world.settings["acme"]
    wrong = {member: other, "client_secret": secrets.token_urlsafe(32)}
    tokens = [
        world.instance.registration(settings).app_auth()
        for settings in (acme, acme.model_copy(update=wrong))
    ]
    api = httpx.MockTransport(lambda request: httpx.Response(200))
    async with httpx.AsyncClient(transport=api) as http:
        assert (await http.get("https://api.test/", auth=tokens[0])).status_code == 200
        with pytest.raises(ProviderError):
            await http.get("https://api.test/", auth=tokens[1])


async def test_the_applications_token_of_a_tenant_is_sent_in_no_request_of_another() -> None:
    world, auths = tenants_of(), list[TokenAuth]()
    api = httpx.MockTransport(lambda request: httpx.Response(200))

    @world.app.get("/call")
    async def call() -> int:
        auths.append(world.instance.app_auth())
        async with httpx.AsyncClient(transport=api) as http:
            return (await http.get("https://api.test/", auth=auths[0])).status_code

    async with world.browser() as browser:
        assert (await browser.get(f"{world.url('acme')}/call")).json() == 200
        answer = await browser.get(f"{world.url('globex')}/call")
        assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")


async def test_refreshes_at_a_provider_that_hangs_stop_no_other_tenants() -> None:
    world, held = tenants_of(), Held()
    async with AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(world.browser()) for _ in range(33)]
        for browser in slow:
            await sign_in(browser, f"{world.url('acme')}/page", user="alice")
        other = await stack.enter_async_context(world.browser())
        await sign_in(other, f"{world.url('globex')}/page", user="carol")
        world.time.advance(3600)
        world.ops["acme"].faults.put("token", held, times=33)
        waiting = [begun(browser.get(f"{world.url('acme')}/page")) for browser in slow]
        await held.gate.until_reached()
        assert (await other.get(f"{world.url('globex')}/page")).status_code == 200
        held.gate.opened.set()
        assert {(await each).status_code for each in waiting} == {200}


@WAYS
async def test_a_session_of_one_tenant_is_none_of_another(lookup: Lookup, prefix: str) -> None:
    world = tenants_of(lookup, prefix)
    async with world.browser() as browser:
        await sign_in(browser, f"{world.url('acme')}/page", user="alice")
        value = browser.cookies["__Host-acme_session"]
        cookies = f"__Host-acme_session={value}; __Host-globex_session={value}"
        page = await browser.get(f"{world.url('globex')}/page", headers={"cookie": cookies})
        assert page.status_code == 401


NAMESAKES = pytest.mark.parametrize(
    "options", [{}, {"session_store": "memory", "back_channel_logout_store": None}]
)


@NAMESAKES
async def test_tenants_of_one_name_and_one_client_accept_no_cookies_of_each_other(
    options: dict[str, Any],
) -> None:
    world = tenants_of(**options)
    acme = world.settings["acme"]
    world.settings["globex"] = acme.model_copy(update={"base_url": world.url("globex")})
    async with world.browser() as browser:
        page = await sign_in(browser, f"{world.url('acme')}/page", user="alice")
        assert page.json() == ["alice", "acme"]
        value = browser.cookies["__Host-acme_session"]
        headers = {"cookie": f"__Host-acme_session={value}"}
        assert (await browser.get(f"{world.url('acme')}/page", headers=headers)).status_code == 200
        page = await browser.get(f"{world.url('globex')}/page", headers=headers)
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
        lacking = await browser.get(world.url("acme") + "/auth/frontchannel-logout")
        assert lacking.status_code == 404


async def test_a_registration_may_be_forgotten_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process knows of ended sessions remains, and what was begun is completed."""
    monkeypatch.setattr(registrations, "MOST_FOUND", 1)
    world = tenants_of()
    acme, globex = (world.url(name) for name in USERS)
    async with world.browser() as browser, world.browser() as copy:
        url = await callback_url(browser, f"{acme}/auth/login", callback=f"{acme}/auth/callback")
        await copy.get(f"{globex}/public")
        await browser.get(url)
        copy.cookies.update(dict(browser.cookies))
        copied = {"cookie": f"__Host-acme_session={browser.cookies['__Host-acme_session']}"}
        assert (await copy.get(f"{acme}/public", headers=copied)).json() == "alice"
        await browser.post(f"{acme}/auth/logout")
        await copy.get(f"{globex}/public")
        assert (await copy.get(f"{acme}/public", headers=copied)).json() is None


async def test_a_tenant_s_api_accepts_the_tokens_of_its_own_provider_alone() -> None:
    world = tenants_of()
    api = world.instance.api("https://api.app.test")

    @world.app.get("/api", dependencies=[Depends(api.require())])
    async def read(caller: Caller[Any] = Depends(world.instance.require_user)) -> str:
        return str(caller.identity.sub)

    async with world.browser() as browser:
        for name, user in USERS.items():
            token = world.ops[name].access_token(user, audience=api.audience)
            sent = {"authorization": f"Bearer {token}"}
            for tenant in USERS:
                answer = await browser.get(f"{world.url(tenant)}/api", headers=sent)
                assert answer.status_code == (200 if tenant == name else 401)
                assert tenant != name or answer.json() == user


def test_an_api_of_https_tenants_has_an_https_resource() -> None:
    with pytest.raises(ConfigurationError, match="resource must be an https URL"):
        tenants_of().instance.api("http://api.app.test")


async def test_what_the_function_returns_is_named_if_it_is_no_registration() -> None:
    world = tenants_of(lambda _world, _connection: "acme")
    async with world.browser() as browser:
        with pytest.raises(TypeError, match="the result of the function of OIDC"):
            await browser.get(f"{world.url('acme')}/public")


async def test_work_without_a_request_names_the_registration() -> None:
    world = tenants_of(session_store="memory", back_channel_logout_store=None)
    async with world.browser() as browser:
        await sign_in(browser, f"{world.url('acme')}/page", user="alice")
        with pytest.raises(ConfigurationError, match=re.escape("oidc.registration(settings)")):
            await world.instance.revoke(sub="alice")
        await world.instance.registration(world.settings["globex"]).revoke(sub="alice")
        assert (await browser.get(f"{world.url('acme')}/page")).status_code == 200
        await world.instance.registration(world.settings["acme"]).revoke(sub="alice")
        assert (await browser.get(f"{world.url('acme')}/page")).status_code == 401


async def test_a_mounted_application_asks_for_the_registration_no_second_time() -> None:
    asked: list[str] = []

    def counted(world: Tenants, connection: HTTPConnection) -> OIDCSettings | None:
        asked.append(connection.url.path)
        return by_host(world, connection)

    world, inner = tenants_of(counted), FastAPI()
    inner.add_middleware(OIDCMiddleware, oidc=world.instance)
    inner.get("/me", dependencies=[Depends(world.instance.require_auth)])(lambda: "me")
    world.app.mount("/inner", inner)
    async with world.browser() as browser:
        await sign_in(browser, "https://acme.app.test/page", user="alice")
        asked.clear()
        assert (await browser.get("https://acme.app.test/inner/me")).status_code == 200
    assert asked == ["/inner/me"]
