"""What somebody is told when a request is refused."""

from __future__ import annotations

from fastapi_oidc import Code, IdentityContext, SessionError, StandardIdentity
from fastapi_oidc.testing import sign_in
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
