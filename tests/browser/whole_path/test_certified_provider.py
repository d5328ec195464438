"""The iframe of the npm package oidc-provider, in the last major that has Session Management."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest
from playwright.sync_api import BrowserContext, Page, Route

from fastapi_oidc import OIDC, OIDCSettings
from tests.browser.element import events, eventually, expect_status, member
from tests.browser.watched_provider import is_believed, poll
from tests.browser.whole_path.application import made
from tests.chromium import ending
from tests.oidc.real_op.real_provider import RealProvider, running_provider
from tests.oidc.real_op.relying_party import NUMBERS, SECRET
from tests.oidc.real_op.serving import free_socket, serving
from tests.programs import require_npm_package


@dataclass
class Site:
    """The app at this origin, registered with the provider."""

    origin: str
    provider: RealProvider

    def sign_in(self, page: Page, user: str = "alice") -> None:
        page.goto(f"{self.origin}/auth/login?{urlencode({'login_hint': user})}")
        expect_status(page, "authenticated")


@pytest.fixture(scope="module")
def provider() -> Iterator[RealProvider]:
    with running_provider("oidc-provider-6") as provider:
        yield provider


@pytest.fixture
def site(provider: RealProvider) -> Iterator[Site]:
    """An app that hears from the provider through the iframe alone."""
    with free_socket() as (listener, origin):
        client_id = f"browser-{next(NUMBERS)}"
        provider.register(
            {
                "client_id": client_id,
                "client_secret": SECRET,
                "redirect_uris": [f"{origin}/auth/callback"],
                "post_logout_redirect_uris": [f"{origin}/auth/logged-out"],
            }
        )
        settings = OIDCSettings(
            issuer=provider.issuer,
            client_id=client_id,
            client_secret=SECRET,
            cookie_secret="cookie secret of at least 32 bytes",
            base_url=origin,
            allow_insecure_http=True,
        )
        app = made(OIDC(settings), provider_origin=provider.issuer)
        with serving(app, listener):
            yield Site(origin, provider)


@pytest.fixture(autouse=True)
def scripts(context: BrowserContext) -> None:
    """The hash function of the provider's iframe from npm, the same file; no polyfill, no font."""
    hash_function = require_npm_package("jssha") / "src/sha256.js"

    def answer(route: Route) -> None:
        headers = {"Access-Control-Allow-Origin": "*", "Content-Type": "text/javascript"}
        is_wanted = route.request.url.endswith("/sha256.js")
        route.fulfill(body=hash_function.read_bytes() if is_wanted else b"", headers=headers)

    context.route(re.compile("^https:"), answer)


def watched(page: Page, site: Site) -> None:
    page.clock.install()
    site.sign_in(page)
    eventually(page, lambda: is_believed(page))


def test_only_changed_leads_to_a_login_and_the_same_user_keeps_the_session(
    page: Page, site: Site
) -> None:
    watched(page, site)
    logins: list[str] = []
    page.on("request", lambda request: logins.append(request.url.rpartition("/")[2]))
    poll(page)
    assert logins == []
    assert member(page, "monitoring") == "watching"
    names = [cookie.get("name", "") for cookie in page.context.cookies()]
    [state] = [name for name in names if name.startswith("_state.") and name.count(".") == 1]
    page.context.add_cookies([{"name": state, "value": "x", "url": site.provider.issuer}])
    poll(page)
    eventually(page, lambda: "login?silent=1" in logins)
    eventually(page, lambda: member(page, "monitoring") == "watching")
    logins.clear()
    poll(page)
    assert "login?silent=1" not in logins
    assert member(page, "isAuthenticated") is True
    assert member(page, "monitoring") == "watching"


def test_a_logout_at_the_provider_ends_the_local_session(page: Page, site: Site) -> None:
    watched(page, site)
    tab = page.context.new_page()
    tab.goto(f"{site.provider.issuer}/session/end")
    tab.get_by_role("button", name="Yes, sign me out").click()
    tab.wait_for_url("**/session/end/success*")
    with ending():
        tab.close()
    poll(page)
    eventually(page, lambda: events(page, "oidc-revoked") != [])
    assert events(page, "oidc-revoked")[0]["reason"] == "provider"
    expect_status(page, "revoked")
