"""What somebody without a session gets, and who may pass."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, OIDCSession
from fastapi_oidc.testing import sign_in
from tests.oidc.world import make_world

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.api_route("/page", methods=["HEAD", "POST"], include_in_schema=False)
    @app.get("/page")
    async def page(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> str:
        return session.sub

    is_alice = oidc.require(lambda user: user.sub == "alice")

    @app.get("/alices")
    async def alices(session: OIDCSession[Any] = Depends(is_alice)) -> str:
        return session.sub


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


async def test_a_visitor_of_a_very_long_url_can_sign_in_too() -> None:
    world = make_world(mount=mount)
    async with world.browser() as browser:
        url = "/page?" + "x" * 2000
        refused = await browser.get(url, headers=NAVIGATION, follow_redirects=False)
        answer = await sign_in(browser, refused.headers["location"], user="alice")
    assert (answer.status_code, answer.url.path) == (200, "/")


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


async def test_it_shows_in_the_api_document() -> None:
    world = make_world(mount=mount)
    document = world.app.openapi()
    assert document["components"]["securitySchemes"]["oidc"]["in"] == "cookie"
    assert document["paths"]["/page"]["get"]["security"] == [{"oidc": []}]
    assert "/auth/login" not in document["paths"]
