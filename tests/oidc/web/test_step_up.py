"""Guards for a recent or a strong authentication: what leads to the login, and what comes back."""

import re
import secrets
from html import unescape
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from fastapi_oidc import OIDC, LoginOptions, OIDCSession
from fastapi_oidc.testing import AuthorizationRequested, DevUser, sign_in
from tests.oidc.world import BASE_URL, World, make_world

PAGE = {"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}
MODES = pytest.mark.parametrize("mode", ["cookie", "store"])
AN_HOUR = 3600


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    recent, strong = oidc.require_recent(300), oidc.require_acr("mfa", "hwk")

    @app.get("/account")
    async def account(session: OIDCSession[Any] = Depends(recent)) -> dict[str, Any]:
        return {"sub": session.sub, "id": session.id, "auth_time": session.auth_time}

    @app.get("/vault")
    async def vault(session: OIDCSession[Any] = Depends(strong)) -> str | None:
        return session.acr

    @app.post("/transfer", dependencies=[Depends(oidc.require_csrf)])
    async def transfer(request: Request, _session: OIDCSession[Any] = Depends(recent)) -> list[Any]:
        return (await request.form()).getlist("to")

    @app.websocket("/ticks")
    async def ticks(socket: WebSocket, _session: OIDCSession[Any] = Depends(strong)) -> None:
        await socket.accept()

    @app.get("/id")
    async def id(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> str:
        return session.id


def world_of(mode: str = "cookie", **options: Any) -> World:
    if mode == "store":
        options["session_store"] = "memory"
    return make_world(mount=mount, **options)


async def an_hour_later() -> tuple[World, httpx.AsyncClient]:
    """A browser in which alice signed in an hour ago."""
    world = world_of()
    browser = await world.signed_in()
    world.time.advance(AN_HOUR)
    return world, browser


@MODES
async def test_a_page_leads_through_the_provider_and_back(mode: str) -> None:
    world = world_of(mode)
    browser = await world.signed_in()
    before = (await browser.get("/account?tab=1")).json()
    copy = world.browser()
    copy.cookies.update(dict(browser.cookies))
    world.time.advance(AN_HOUR)
    answer = await sign_in(browser, "/account?tab=1", user="alice")
    assert (answer.status_code, str(answer.url)) == (200, f"{BASE_URL}/account?tab=1")
    after = answer.json()
    assert after["id"] == before["id"]
    assert (await copy.get("/id")).status_code == 401, "a copy of the cookie is not stepped up"
    assert after["auth_time"] == before["auth_time"] + AN_HOUR
    assert world.op.record.of(AuthorizationRequested)[-1].parameters["max_age"] == "300"


async def test_an_api_call_gets_a_challenge() -> None:
    _, browser = await an_hour_later()
    answer = await browser.get("/account")
    assert (answer.status_code, answer.json()["code"]) == (401, "session.step_up_required")
    challenge = 'Bearer error="insufficient_user_authentication", max_age="300"'
    assert answer.headers["www-authenticate"] == challenge
    strong = await browser.get("/vault")
    assert 'acr_values="mfa hwk"' in strong.headers["www-authenticate"]


async def test_a_websocket_is_refused() -> None:
    world = world_of()
    browser = await world.signed_in()
    client = TestClient(world.app, base_url=BASE_URL, cookies=dict(browser.cookies))
    with pytest.raises(WebSocketDisconnect) as caught, client.websocket_connect("/ticks"):
        raise AssertionError("it was accepted")
    assert caught.value.code == 1008


@pytest.mark.parametrize(
    ("path", "said", "code"),
    [
        ("/account", {"auth_time": 1_800_000_000}, "id_token.auth_time"),
        ("/vault", {"acr": "pwd"}, "id_token.authentication_context"),
        ("/vault", {}, "id_token.authentication_context"),
    ],
)
async def test_a_provider_that_does_not_step_up_ends_on_a_page_and_not_in_a_loop(
    path: str, said: dict[str, Any], code: str
) -> None:
    world = world_of()
    browser = await world.signed_in()
    before = (await browser.get("/id")).json()
    world.time.advance(AN_HOUR)
    world.op.edits.put("id_token", lambda claims: claims | said)
    asked = len(world.op.record.of(AuthorizationRequested))
    browser.headers.update(PAGE)
    answer = await sign_in(browser, path, user="alice")
    assert (answer.status_code, answer.url.path) == (403, "/auth/callback")
    assert code in answer.text
    assert len(world.op.record.of(AuthorizationRequested)) == asked + 1
    assert (await browser.get("/id")).json() == before


# A form that was posted


async def form_of(browser: httpx.AsyncClient) -> dict[str, Any]:
    """The fields of the form that alice has on her screen."""
    token = (await browser.get("/auth/session")).json()["csrf_token"]
    return {"to": ["bob", "carol"], "csrf_token": token}


async def test_a_form_is_sent_again_after_a_login_in_another_tab() -> None:
    _, browser = await an_hour_later()
    form = await form_of(browser)
    page = await browser.post("/transfer?n=1", data=form, headers=PAGE)
    assert page.status_code == 401
    assert page.headers["www-authenticate"].startswith("Bearer error=")
    assert "carol" not in page.text
    link = re.search(r'<a href="([^"]*)" target="_blank" rel="noopener">', page.text)
    assert link is not None
    await sign_in(browser, unescape(link[1]), user="alice")
    again = await browser.post("/transfer?n=1", data=form, headers=PAGE)
    assert (again.status_code, again.json()) == (200, ["bob", "carol"])


async def test_a_form_of_the_user_before_is_not_sent_as_another() -> None:
    _, browser = await an_hour_later()
    form = await form_of(browser)
    await sign_in(browser, "/auth/login?max_age=300", user="bob")
    again = await browser.post("/transfer", data=form, headers=PAGE)
    assert again.status_code == 403
    assert "session.csrf" in again.text


async def test_the_same_sub_of_another_tenant_is_another_user() -> None:
    tenants = [secrets.token_hex(4) + "-0000-4000-8000-" + secrets.token_hex(6) for _ in "ab"]
    issuer = "https://op.test/common/v2.0"
    users = [DevUser("alice", tenant=tenants[0]), DevUser("bob", tenant=tenants[1])]
    provider = {"issuer": issuer, "users": users}
    world = world_of(settings={"allowed_tenants": tenants}, provider=provider)
    browser = await world.signed_in("alice")
    world.time.advance(AN_HOUR)
    form = await form_of(browser)
    for message in ("id_token", "userinfo"):
        world.op.edits.put(message, lambda said: said | {"sub": "alice"})
    await sign_in(browser, "/auth/login?max_age=300", user="bob")
    assert (await browser.post("/transfer", data=form, headers=PAGE)).status_code == 403


# A login that the application begins


@pytest.mark.parametrize("scope_asked", [["profile"], "profile", "openid profile"])
async def test_a_login_may_ask_for_another_scope(scope_asked: str | list[str]) -> None:
    world = world_of()

    @world.app.get("/calendar")
    async def calendar(request: Request) -> Response:
        return await world.oidc.login(request, LoginOptions(scope=scope_asked))

    @world.app.get("/scope")
    async def scope(session: OIDCSession[Any] = Depends(world.oidc.require_auth)) -> Any:
        return session.tokens.scope

    def unsaid(said: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in said.items() if name != "scope"}

    world.op.edits.put("token_response", unsaid)
    browser = await world.signed_in()
    assert (await browser.get("/scope")).json()[-1] == "offline_access"
    await sign_in(browser, "/calendar", user="alice")
    assert world.op.record.of(AuthorizationRequested)[-1].parameters["scope"] == "openid profile"
    assert (await browser.get("/scope")).json() == ["openid", "profile"]


@pytest.mark.parametrize("query", ["max_age=-1", "max_age=x", "acr_values=" + "a" * 256])
async def test_the_login_route_refuses_what_it_cannot_ask_for(query: str) -> None:
    async with world_of().browser() as browser:
        assert (await browser.get(f"/auth/login?{query}")).status_code == 422
