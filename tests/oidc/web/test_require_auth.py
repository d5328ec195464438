"""What somebody without a session gets, and who may pass."""

from __future__ import annotations

from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request

from fastapi_oidc import (
    OIDC,
    ConfigurationError,
    OIDCSession,
    require_auth,
    require_csrf,
)
from fastapi_oidc.testing import sign_in
from tests.oidc.world import BASE_URL, make_world

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.api_route("/page", methods=["HEAD", "POST"], include_in_schema=False)
    @app.get("/page")
    async def page(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> str:
        return session.sub

    is_alice = oidc.require(lambda user: user.sub == "alice")

    @app.get("/called")
    async def called(request: Request) -> str:
        return (await oidc.require_auth(request)).sub

    @app.get("/alices")
    async def alices(
        session: OIDCSession[Any] = Depends(is_alice),
    ) -> str:
        return session.sub

    @app.post("/heartbeat", dependencies=[Depends(require_csrf)], status_code=204)
    async def heartbeat() -> None: ...


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"sec-fetch-mode": "navigate"}, 302),
        ("HEAD", {"sec-fetch-mode": "navigate"}, 302),
        ("GET", {"accept": "text/html,*/*"}, 302),
        ("POST", {"sec-fetch-mode": "navigate"}, 401),
        ("GET", {"sec-fetch-mode": "cors", "accept": "text/html"}, 401),
        ("GET", {"accept": "application/json"}, 401),
        ("GET", {}, 401),
    ],
)
async def test_a_page_is_sent_to_sign_in_and_a_script_is_told(
    method: str, headers: dict[str, str], status: int
) -> None:
    world = make_world(mount=mount)
    async with world.browser() as browser:
        answer = await browser.request(
            method, "/page?a=%20b", headers=headers, follow_redirects=False
        )
    assert answer.status_code == status
    if status == 302:
        assert answer.headers["location"] == "/auth/login?return_to=%2Fpage%3Fa%3D%2520b"
    else:
        assert answer.headers["www-authenticate"].startswith('Cookie realm="oidc"')
    assert answer.headers["cache-control"] == "no-store"


async def test_a_visitor_comes_back_to_the_page_after_signing_in() -> None:
    world = make_world(mount=mount)
    async with world.browser() as browser:
        sent = await browser.get("/page?a=%20b", headers=NAVIGATION, follow_redirects=False)
        answer = await browser.get(sent.headers["location"] + "&login_hint=alice")
    assert str(answer.url) == f"{BASE_URL}/page?a=%20b"


async def test_a_visitor_of_a_very_long_url_can_sign_in_too() -> None:
    world = make_world(mount=mount)
    async with world.browser() as browser:
        url = "/page?" + "x" * 2000
        refused = await browser.get(url, headers=NAVIGATION, follow_redirects=False)
        answer = await sign_in(browser, refused.headers["location"], user="alice")
    assert (answer.status_code, answer.url.path) == (200, "/")


async def test_the_method_and_the_dependency_agree() -> None:
    world = make_world(mount=mount)
    browser = await world.signed_in()
    assert (await browser.get("/page")).json() == (await browser.get("/called")).json() == "alice"


async def test_a_predicate_refuses_with_403() -> None:
    world = make_world(mount=mount)
    alice, bob = await world.signed_in("alice"), await world.signed_in("bob")
    assert (await alice.get("/alices")).status_code == 200
    refused = await bob.get("/alices")
    assert (refused.status_code, refused.json()["code"]) == (403, "session.forbidden")
    page = await bob.get("/alices", headers=NAVIGATION)
    assert "You may not do this" in page.text
    async with world.browser() as nobody:
        assert (await nobody.get("/alices")).status_code == 401


async def test_a_heartbeat_needs_the_sessions_own_token() -> None:
    world = make_world(mount=mount)
    alice, bob = await world.signed_in("alice"), await world.signed_in("bob")
    token = (await alice.get("/auth/session")).json()["csrf_token"]
    foreign = (await bob.get("/auth/session")).json()["csrf_token"]

    async def beat(value: str | None) -> int:
        headers = {} if value is None else {"X-CSRF-Token": value}
        return (await alice.post("/heartbeat", headers=headers)).status_code

    assert [await beat(value) for value in (token, foreign, None, "", token[:-1])] == [
        204,
        403,
        403,
        403,
        403,
    ]
    async with world.browser() as nobody:
        answer = await nobody.post("/heartbeat", headers={"X-CSRF-Token": token})
        assert answer.status_code == 401


async def test_it_shows_in_the_api_document() -> None:
    world = make_world(mount=mount)
    document = world.app.openapi()
    assert document["components"]["securitySchemes"]["oidc"]["in"] == "cookie"
    assert document["paths"]["/page"]["get"]["security"] == [{"oidc": []}]
    assert "/auth/login" not in document["paths"]


async def test_without_the_middleware_the_error_names_the_line_to_add() -> None:
    app = FastAPI()

    @app.get("/")
    async def home(_session: Annotated[Any, Depends(require_auth)]) -> None: ...

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as browser:
        with pytest.raises(ConfigurationError, match=r"app\.add_middleware"):
            await browser.get("/")


def test_a_predicate_that_cannot_be_called_is_refused_when_the_guard_is_made() -> None:
    oidc: Any = make_world().oidc
    with pytest.raises(ConfigurationError, match="takes a function of the identity, not str"):
        oidc.require("admin")
