"""What somebody is told when a request is refused."""

from __future__ import annotations

from fastapi import FastAPI, Request

from fastapi_oidc import Code, IdentityContext, OIDCMiddleware, SessionError, StandardIdentity
from fastapi_oidc.testing import sign_in
from tests.oidc.web.asking import browser_of
from tests.oidc.world import make_world

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


def nobody(_context: IdentityContext) -> StandardIdentity:
    raise SessionError(Code.SESSION_REQUIRED, "the application does not know this user")


async def test_a_login_that_the_application_refuses_does_not_begin_again_by_itself() -> None:
    world = make_world(resolve_identity=nobody)
    async with world.browser() as browser:
        browser.headers.update(NAVIGATION)
        answer = await sign_in(browser, "/auth/login?return_to=/me", user="alice")
    assert (answer.status_code, answer.url.path) == (401, "/auth/callback")
    assert "/auth/login" in answer.text, "the person may try again"


async def test_a_guard_in_a_callback_does_not_lead_back_to_the_callback() -> None:
    oidc = make_world().oidc

    async def ask_again(request: Request, _error: Exception) -> None:
        await oidc.require_auth(request)

    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.get("/callback")(oidc.callback_handler(on_failure=ask_again))
    app.get("/login")(oidc.login_handler())
    async with browser_of(app) as browser:
        answer = await browser.get("/callback?state=x&code=y", headers=NAVIGATION)
    assert (answer.status_code, "location" in answer.headers) == (401, False)
