"""Several registrations: one login page, one cookie and one set of guards."""

import re
import secrets
from html import unescape
from typing import Any

import httpx
import pytest
from fastapi import Depends, Request
from fastapi.responses import Response

from fastapi_oidc import (
    Caller,
    ConfigurationError,
    Event,
    IdentityContext,
    LoginOptions,
    OIDCLocals,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
)
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.steps import callback_url
from tests.oidc.web.several_providers import SeveralProviders
from tests.oidc.world import BASE_URL

PAGE = {"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}
USERS = {"staff": "alice", "partners": "carol"}


def registered(world: SeveralProviders, **settings: Any) -> dict[str, OIDCSettings]:
    """By label: the staff with alice, and the partners with carol."""
    secret = secrets.token_urlsafe(32)
    return {
        name.title(): world.new_provider(
            name,
            user,
            f"{BASE_URL}/auth/{name}",
            logged_out=f"{BASE_URL}/auth/logged-out",
            cookie_secret=secret,
            **settings,
        )
        for name, user in USERS.items()
    }


def world_of(settings: dict[str, Any] | None = None, **options: Any) -> SeveralProviders:
    """An application with two providers: alice is of the staff, carol a partner."""
    world = SeveralProviders()
    oidc = world.oidc(registered(world, **settings or {}), **options)
    app = world.app
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/page")
    async def page(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> list[str]:
        return [session.sub, oidc.settings_of(session).name, session.issuer]

    @app.get("/")
    async def home(locals: OIDCLocals[Any, Any] = Depends(oidc.locals)) -> object:
        return locals.session and locals.session.sub

    strong = [Depends(oidc.require_recent(300)), Depends(oidc.require_acr("1"))]

    @app.get("/strong", dependencies=strong)
    async def strongly() -> None: ...

    @app.post("/refresh")
    async def refresh(request: Request) -> str:
        return (await oidc.refresh(request)).issuer

    @app.get("/user-info")
    async def user_info(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> object:
        return (await oidc.user_info(session) or {})["sub"]

    world.app.state.oidc = oidc
    return world


async def sign_in_at(browser: httpx.AsyncClient, name: str, path: str = "/page") -> httpx.Response:
    """Follow the link of the login page."""
    chooser = await browser.get(path, headers=PAGE)
    links = dict(re.findall(r'<a href="([^"]*)">([^<]*)</a>', chooser.text))
    url = next(unescape(href) for href, label in links.items() if label == name.title())
    return await sign_in(browser, url, user=USERS[name])


@pytest.mark.parametrize(
    "options", [{"back_channel_logout_store": "memory"}, {"session_store": "memory"}]
)
async def test_a_login_ends_the_session_at_the_other_provider(options: dict[str, Any]) -> None:
    world = world_of(**options)
    async with world.browser() as browser, world.browser() as copy:
        await sign_in_at(browser, "staff")
        copy.cookies.update(dict(browser.cookies))
        await sign_in(browser, "/auth/login?provider=partners&return_to=/page", user="carol")
        assert (await browser.get("/page")).json()[0] == "carol"
        ours = [name for name in browser.cookies if name.startswith("__Host-")]
        assert ours == ["__Host-oidc_session"]
        assert (await copy.get("/page")).status_code == 401


@pytest.mark.parametrize("name", USERS)
async def test_tokens_and_step_ups_are_requested_where_the_session_is_from(name: str) -> None:
    world = world_of()
    async with world.browser() as browser:
        await sign_in_at(browser, name)
        assert (await browser.post("/refresh")).json() == f"https://{name}.test"
        assert (await browser.get("/user-info")).json() == USERS[name]
        world.time.advance(3600)
        assert (await browser.get("/page")).json()[1] == name
        page = await browser.get("/strong", headers=PAGE, follow_redirects=False)
        sent = await browser.get(page.headers["location"], follow_redirects=False)
        assert sent.headers["location"].startswith(f"https://{name}.test/")
        assert (await sign_in(browser, "/strong", user=USERS[name])).status_code == 200


async def test_a_code_of_one_registration_is_worth_nothing_at_the_callback_of_another() -> None:
    world = world_of()
    async with world.browser() as browser:
        login, callback = "/auth/login?provider=staff", f"{BASE_URL}/auth/staff/callback"
        url = await callback_url(browser, login, callback=callback)
        assert "iss=https%3A%2F%2Fstaff." in url
        wrong = await browser.get(url.replace("staff", "partners"), headers=PAGE)
        assert wrong.status_code == 400
        assert not any(op.record.calls["token"] for op in world.ops.values())
        assert (await browser.get("/auth/nobody/callback?state=1")).status_code == 404
        unknown = await browser.get("/auth/login?provider=Staff", headers=PAGE)
        assert unknown.json()["detail"] == "There is no such provider. Names are staff, partners."


async def test_a_logout_token_ends_the_sessions_of_its_own_registration() -> None:
    world = world_of(back_channel_logout_store="memory")
    async with world.browser() as staff, world.browser() as partners:
        await sign_in_at(staff, "staff")
        await sign_in_at(partners, "partners")
        await world.ops["staff"].log_out("alice")
        assert (await staff.get("/page")).status_code == 401
        assert (await partners.get("/page")).status_code == 200


async def test_a_user_is_named_by_sub_and_issuer() -> None:
    world = world_of(session_store="memory")
    oidc = world.app.state.oidc
    async with world.browser() as browser:
        await sign_in_at(browser, "partners")
        with pytest.raises(ConfigurationError, match="pass both"):
            await oidc.revoke(sub="carol")
        with pytest.raises(ConfigurationError, match="no registration here has the issuer"):
            await oidc.revoke(sub="carol", issuer="https://elsewhere.test")
        await oidc.revoke(sub="carol", issuer="https://staff.test")
        assert (await browser.get("/page")).status_code == 200
        assert len(await oidc.sessions_of("carol", issuer="https://partners.test")) == 1
        await oidc.revoke(sub="carol", issuer="https://partners.test")
        assert (await browser.get("/page")).status_code == 401


async def test_the_choice_keeps_what_the_login_asks_for() -> None:
    world = world_of()
    oidc = world.app.state.oidc

    @world.app.get("/go")
    async def go(request: Request) -> Response:
        options = LoginOptions(prompt="login", max_age=0, acr_values=["1", "2"])
        response: Response = await oidc.login(request, options, return_to="/page")
        return response

    @world.app.get("/wrong")
    async def wrong(request: Request) -> Response:
        response: Response = await oidc.login(request, LoginOptions(scope="openid email"))
        return response

    async with world.browser() as browser:
        page = await browser.get("/go?x=1")
        query = "return_to=%2Fpage&prompt=login&max_age=0&acr_values=1+2&provider=staff"
        assert f'href="/auth/login?{query}"' in unescape(page.text)
        assert (await browser.get("/wrong")).json()["code"] == "configuration.invalid"


async def test_a_silent_login_sends_no_id_token_to_another_provider() -> None:
    world = world_of()
    oidc = world.app.state.oidc

    @world.app.get("/silent")
    async def silent(request: Request) -> Response:
        options = LoginOptions(silent=True, provider="partners")
        response: Response = await oidc.login(request, options)
        return response

    async with world.browser() as browser:
        await sign_in_at(browser, "staff")
        assert (await browser.get("/silent", follow_redirects=False)).status_code == 401


async def test_a_registration_alone_has_guards_of_its_own() -> None:
    world = SeveralProviders()
    several = registered(world)
    oidc = world.oidc(several)
    world.app.add_middleware(OIDCMiddleware, oidc=oidc)
    world.app.include_router(oidc.router, prefix="/auth")
    staff = oidc.registration(several["Staff"])
    world.app.get("/staff", dependencies=[Depends(staff.require_auth)])(lambda: "staff")
    async with world.browser() as browser:
        await sign_in(browser, "/auth/login?provider=partners", user="carol")
        assert (await browser.get("/staff")).status_code == 403
        await sign_in(browser, "/auth/login?provider=staff", user="alice")
        assert (await browser.get("/staff")).status_code == 200
    api = staff.api("https://app.test/api", introspect="opaque")
    assert [each.expected.issuer.url for each in api._server_of(api.runtime).issuers] == [
        "https://staff.test"
    ]


async def test_an_api_takes_the_tokens_of_each_registration_and_names_it() -> None:
    def resolve(context: IdentityContext) -> StandardIdentity:
        return StandardIdentity(sub="anybody", name=context.registration)

    world = world_of(resolve_identity=resolve)
    world.app.state.oidc.api("https://app.test/api")

    @world.app.get("/api")
    async def read(caller: Caller[Any] = Depends(world.app.state.oidc.require_user)) -> object:
        return caller.identity.name

    async with world.browser() as program:
        for name, user in USERS.items():
            token = world.ops[name].access_token(user, audience="https://app.test/api")
            sent = {"authorization": f"Bearer {token}"}
            assert (await program.get("/api", headers=sent)).json() == name


def test_what_belongs_to_no_session_needs_one_registration() -> None:
    world = SeveralProviders()
    several = registered(world)
    oidc = world.oidc(several)
    for ask in (lambda: oidc.settings, oidc.app_auth):
        with pytest.raises(ConfigurationError, match=re.escape("oidc.registration(settings)")):
            ask()
    assert oidc.registration(several["Staff"]).settings.name == "staff"
    with pytest.raises(ConfigurationError):
        oidc.registration(several["Staff"].model_copy(update={"name": "other"}))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "staff"},
        {"issuer": "https://staff.test"},
        {"cookie_secret": secrets.token_urlsafe(32)},
        {"base_url": "https://other.test"},
        {"trusted_origins": ["https://other.test"]},
    ],
)
def test_several_registrations_differ_and_share_what_they_must(changes: dict[str, Any]) -> None:
    world = SeveralProviders()
    several = registered(world)
    credentials = {"client_secret": secrets.token_urlsafe(32)}
    several["Partners"] = several["Partners"].model_copy(update=credentials | changes)
    with pytest.raises(ConfigurationError):
        world.oidc(several)


@pytest.mark.parametrize("wrong", [{}, {"Staff": "https://staff.test"}, {1: None}, [], "staff"])
def test_what_is_no_registration_is_named_at_once(wrong: Any) -> None:
    with pytest.raises((TypeError, ConfigurationError), match=r"settings|registrations|label"):
        SeveralProviders().oidc(wrong)


@pytest.mark.parametrize("name", USERS)
async def test_events_and_the_identity_name_the_registration(name: str) -> None:
    events: list[Event] = []

    def resolve(context: IdentityContext) -> StandardIdentity:
        return StandardIdentity(sub=USERS[name], name=context.registration)

    world = world_of(on_event=events.append, resolve_identity=resolve)
    async with world.browser() as browser:
        await sign_in_at(browser, name)
        world.time.advance(3600)
        document = (await browser.get("/auth/session")).json()
        await browser.get("/strong")
        assert document["identity"]["name"] == name
        await browser.post("/auth/logout", headers={"x-csrf-token": document["csrf_token"]})
    assert [(str(event.name), event.registration) for event in events] == [
        ("login.started", name),
        ("login.succeeded", name),
        ("session.refreshed", name),
        ("request.refused", name),
        ("logout.started", name),
        ("back_channel_logout.refused", name),  # there is no store
        ("logout.returned", None),  # one route for all of them
    ]
