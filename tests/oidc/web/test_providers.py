"""Several providers behind one login page: one guard, one sign-out, one session at a time."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx
import pytest
from fastapi import Depends, Request
from fastapi.responses import PlainTextResponse

from fastapi_oidc import (
    OIDC,
    ConfigurationError,
    OIDCLocals,
    OIDCMiddleware,
    OIDCProviders,
    OIDCSession,
    Page,
)
from fastapi_oidc.testing import ServerError, sign_in
from tests.oidc.web.several_providers import SeveralProviders
from tests.oidc.world import BASE_URL

PAGE = {"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}
USERS = {"staff": "alice", "partners": "carol"}


def instance(world: SeveralProviders, name: str, **options: Any) -> OIDC[Any, Any]:
    settings = options.pop("settings", {})
    routes = f"{BASE_URL}/auth/{name}"
    return world.instance(world.new_provider(name, USERS[name], routes, **settings), **options)


def world_of(**options: Any) -> SeveralProviders:
    """An application with two providers: alice is of the staff, carol a partner."""
    world = SeveralProviders()
    named = {name.title(): instance(world, name, **options) for name in USERS}
    providers: OIDCProviders[Any, Any] = OIDCProviders(named)
    app = world.app
    for oidc in providers:
        app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(providers.router, prefix="/auth")

    @app.get("/page")
    async def page(
        request: Request, session: OIDCSession[Any] = Depends(providers.require_auth)
    ) -> list[str]:
        current = await providers.current(request)
        assert current is not None
        return [session.sub, current.settings.name, session.issuer]

    @app.get("/")
    async def home(locals: OIDCLocals[Any, Any] = Depends(providers.locals)) -> object:
        return locals.session and locals.session.sub

    is_carol = providers.guard(lambda oidc: oidc.require(lambda user: user.sub == "carol"))
    recent = providers.guard(lambda oidc: oidc.require_recent(300))

    @app.get("/staff-only", dependencies=[Depends(next(iter(providers)).require_auth)])
    async def staff_only() -> None: ...

    @app.get("/called")
    async def called(request: Request) -> str:
        return (await is_carol(request)).sub

    @app.get("/carols", dependencies=[Depends(is_carol)])
    async def carols() -> None: ...

    @app.get("/recent", dependencies=[Depends(recent)])
    async def recently() -> None: ...

    @app.post("/change", dependencies=[Depends(providers.require_csrf)])
    async def change() -> None: ...

    return world


async def sign_in_at(browser: httpx.AsyncClient, name: str, path: str = "/page") -> httpx.Response:
    """Follow the link of the login page."""
    chooser = await browser.get(path, headers=PAGE)
    links = dict(re.findall(r'<a href="([^"]*)">([^<]*)</a>', chooser.text))
    url = next(unescape(href) for href, label in links.items() if label == name.title())
    return await sign_in(browser, url, user=USERS[name])


@pytest.mark.parametrize("name", USERS)
async def test_a_page_leads_to_the_choice_and_back(name: str) -> None:
    world = world_of()
    async with world.browser() as browser:
        answer = await sign_in_at(browser, name, "/page?a=%20b")
        assert str(answer.url) == f"{BASE_URL}/page?a=%20b"
        assert answer.json() == [USERS[name], name, f"https://{name}.test"]
        assert (await browser.get("/")).json() == USERS[name]


async def test_the_login_page_has_no_script_and_names_each_provider() -> None:
    async with world_of().browser() as browser:
        page = await browser.get("/auth/login?return_to=/page")
    assert page.text.count("<a href") == 2
    assert "<script" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src")
    assert page.headers["cache-control"] == "no-store"


async def test_a_login_page_of_the_application() -> None:
    def render(_request: Request, page: Page) -> PlainTextResponse | None:
        lines = [f"{name} {url}" for name, url in page.choices]
        return PlainTextResponse("\n".join(lines)) if page.kind == "choose_provider" else None

    async with world_of(render_page=render).browser() as browser:
        page = await browser.get("/auth/login?return_to=/page")
    assert page.text.splitlines() == [
        "Staff /auth/staff/login?return_to=/page",
        "Partners /auth/partners/login?return_to=/page",
    ]


async def test_without_a_session_a_call_is_refused() -> None:
    async with world_of().browser() as browser:
        answer = await browser.get("/page")
        assert (answer.status_code, answer.json()["code"]) == (401, "session.required")
        assert (await browser.get("/")).json() is None
        assert (await browser.get("/auth/session")).json() == {"is_authenticated": False}


@pytest.mark.parametrize(
    "options", [{"back_channel_logout_store": "memory"}, {"session_store": "memory"}]
)
async def test_a_login_ends_the_session_at_the_other_provider(options: dict[str, Any]) -> None:
    world = world_of(**options)
    async with world.browser() as browser, world.browser() as copy:
        await sign_in_at(browser, "staff")
        copy.cookies.update(dict(browser.cookies))
        await sign_in(browser, "/auth/partners/login?return_to=/page", user="carol")
        assert (await browser.get("/page")).json()[0] == "carol"
        ours = [name for name in browser.cookies if name.startswith("__Host-")]
        assert ours == ["__Host-partners_session"]
        assert (await copy.get("/page")).status_code == 401


async def test_a_login_that_is_refused_leaves_the_session_there_is() -> None:
    world = world_of()
    async with world.browser() as browser:
        await sign_in_at(browser, "staff")
        world.ops["partners"].faults.put("token", ServerError(), times=9)
        await sign_in(browser, "/auth/partners/login", user="carol")
        assert (await browser.get("/page")).json()[0] == "alice"


@pytest.mark.parametrize("name", USERS)
async def test_one_route_signs_out_of_whichever_provider_it_is(name: str) -> None:
    world = world_of()
    async with world.browser() as browser:
        await sign_in_at(browser, name)
        sent = await browser.post("/auth/logout", follow_redirects=False)
        assert sent.headers["location"].startswith(f"https://{name}.test/end-session?")
        ended = await browser.get(sent.headers["location"])
        assert (ended.status_code, str(ended.url)) == (200, f"{BASE_URL}/")
        assert (await browser.get("/page")).status_code == 401


@pytest.mark.parametrize("name", USERS)
async def test_the_browser_component_needs_no_provider(name: str) -> None:
    world = world_of()
    async with world.browser() as browser:
        await sign_in_at(browser, name)
        session = (await browser.get("/auth/session")).json()
        assert session["sub"] == USERS[name]
        headers = {"X-CSRF-Token": session["csrf_token"]}
        assert (await browser.post("/change", headers=headers)).status_code == 200
        assert (await browser.post("/change")).status_code == 403
        config = (await browser.get("/auth/session-management")).json()
        assert config["check_session_iframe"] == f"https://{name}.test/check-session"
        assert (await browser.get("/auth/oidc-context.js")).status_code == 200
        silent = await browser.get("/auth/login?silent=1", headers={"sec-fetch-dest": "iframe"})
        assert "same_user" in silent.text


async def test_a_poll_of_the_session_is_no_activity() -> None:
    world = world_of(settings={"idle_timeout": 60})
    async with world.browser() as browser:
        await sign_in_at(browser, "partners")
        for is_authenticated in (True, False):
            world.time.advance(40)
            session = (await browser.get("/auth/session")).json()
            assert session["is_authenticated"] is is_authenticated


async def test_guards_of_an_instance_apply_to_its_own_session() -> None:
    world = world_of()
    async with world.browser() as browser:
        await sign_in_at(browser, "staff")
        assert (await browser.get("/carols")).status_code == 403
        world.time.advance(3600)
        page = await browser.get("/recent", headers=PAGE, follow_redirects=False)
        assert page.headers["location"].startswith("/auth/staff/login?return_to=%2Frecent&max_age")
        await sign_in(browser, "/auth/partners/login", user="carol")
        assert (await browser.get("/carols")).status_code == 200


@pytest.mark.parametrize(
    ("path", "login"),
    [("/page", "/auth/login"), ("/called", "/auth/login"), ("/staff-only", "/auth/staff/login")],
)
async def test_a_guard_of_one_instance_leads_to_its_login(path: str, login: str) -> None:
    async with world_of().browser() as browser:
        page = await browser.get(path, headers=PAGE, follow_redirects=False)
    assert page.headers["location"].partition("?")[0] == login


@pytest.mark.parametrize("query", ["silent=maybe", "prompt=no"])
async def test_the_login_page_refuses_what_a_login_would(query: str) -> None:
    async with world_of().browser() as browser:
        assert (await browser.get(f"/auth/login?{query}")).status_code == 422


async def test_a_provider_that_is_down_leaves_the_other_alone() -> None:
    world = world_of()
    world.ops["staff"].faults.put("metadata", ServerError(), times=99)
    async with world.browser() as browser:
        refused = await browser.get("/auth/staff/login", headers=PAGE)
        assert refused.status_code == 502
        assert 'href="/auth/login"' in refused.text
        assert (await sign_in_at(browser, "partners")).json()[0] == "carol"


def test_two_instances_have_two_names() -> None:
    world = SeveralProviders()
    one, other = instance(world, "staff"), instance(world, "staff")
    for named in ({}, {"One": one, "Other": other}):
        with pytest.raises(ConfigurationError):
            OIDCProviders(named)
