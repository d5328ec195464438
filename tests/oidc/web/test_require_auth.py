"""What somebody without a session gets, and who may pass."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import (
    OIDC,
    Code,
    IdentityContext,
    OIDCSession,
    SessionError,
    StandardIdentity,
)
from fastapi_oidc.testing import sign_in
from tests.oidc.world import BASE_URL, make_world, signed_in_world

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.api_route("/page", methods=["HEAD", "POST"], include_in_schema=False)
    @app.get("/page")
    async def page(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> str:
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
    answer = await world.browser().request(
        method, "/page?a=%20b", headers=headers, follow_redirects=False
    )
    assert answer.status_code == status
    if status == 302:
        assert answer.headers["location"] == "/auth/login?return_to=%2Fpage%3Fa%3D%2520b"
    else:
        assert answer.headers["www-authenticate"].startswith('Cookie realm="oidc"')
    assert answer.headers["cache-control"] == "no-store"


def nobody(_context: IdentityContext) -> StandardIdentity:
    raise SessionError(Code.SESSION_REQUIRED, "the application does not know this user")


async def test_a_login_that_the_application_refuses_does_not_begin_again_by_itself() -> None:
    world = make_world(resolve_identity=nobody)
    async with world.browser() as browser:
        browser.headers.update(NAVIGATION)
        answer = await sign_in(browser, "/auth/login?return_to=/me", user="alice")
    assert (answer.status_code, answer.url.path) == (401, "/auth/callback")
    assert "/auth/login" in answer.text, "the person may try again"


PAGES = "https://pages.app.test"
BY_SCRIPT = {"origin": PAGES, "sec-fetch-site": "same-site"}


def mount_notes(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.api_route("/notes", methods=["GET", "POST", "DELETE"])
    async def notes(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> str:
        return session.sub

    @app.post("/feedback")
    async def feedback(session: OIDCSession[Any] | None = Depends(oidc.optional_user)) -> str:
        return "a stranger" if session is None else session.sub


@pytest.mark.parametrize(
    ("method", "headers", "is_refused"),
    [
        ("POST", {"sec-fetch-site": "same-site"}, True),
        ("POST", {"sec-fetch-site": "cross-site", "origin": "null"}, True),
        ("POST", {"origin": "https://evil.app.test"}, True),  # of a browser without Fetch Metadata
        ("POST", {"origin": "http://app.test"}, True),
        ("DELETE", BY_SCRIPT, True),
        ("POST", {"origin": BASE_URL}, False),
        ("POST", {"origin": "null", "sec-fetch-site": "same-origin"}, False),
        ("POST", {"sec-fetch-site": "none"}, False),
        ("POST", {}, False),
        ("GET", BY_SCRIPT, False),
    ],
)
async def test_only_own_pages_change_something(
    method: str, headers: dict[str, str], is_refused: bool
) -> None:
    _, browser = await signed_in_world(mount=mount_notes)
    answer = await browser.request(method, "/notes", headers=headers)
    assert answer.status_code == (403 if is_refused else 200)
    if is_refused:
        assert answer.json()["code"] == Code.SESSION_CROSS_SITE
        assert (await browser.request(method, "/notes")).status_code == 200, "it is still signed in"


async def test_a_trusted_page_may_change_something_too() -> None:
    _, browser = await signed_in_world(mount=mount_notes, settings={"trusted_origins": [PAGES]})
    assert (await browser.post("/notes", headers=BY_SCRIPT)).status_code == 200


async def test_another_page_uses_no_session_of_an_open_endpoint() -> None:
    world, browser = await signed_in_world(mount=mount_notes)
    for client, status in ((browser, 403), (world.browser(), 200)):
        answer = await client.post("/feedback", headers=BY_SCRIPT)
        assert answer.status_code == status
        assert "alice" not in answer.text
