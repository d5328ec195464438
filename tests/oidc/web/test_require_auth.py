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
from tests.oidc.world import make_world

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
