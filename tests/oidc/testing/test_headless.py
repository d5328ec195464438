from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from fastapi_oidc import OIDC, OIDCSettings
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, sign_in, sign_in_sync
from tests.oidc.real_op.serving import free_socket, serving
from tests.oidc.world import LOGIN_URL, application, make_world


@pytest.mark.parametrize("mode", ["query", "form_post"])
@pytest.mark.parametrize("user", ["alice", "bob"])
async def test_it_chooses_the_user_on_the_page(user: str, mode: str) -> None:
    async with make_world(settings={"response_mode": mode}).browser() as browser:
        page = await sign_in(browser, LOGIN_URL, user=user)
        assert (page.status_code, page.json()["sub"]) == (200, user)


async def test_a_browser_reaches_app_and_provider_without_a_socket() -> None:
    provider = DevProvider(users=[DevUser("alice")], clients=[])
    async with provider.browser(FastAPI(), base_url="https://app.test") as browser:
        assert (await browser.get("/openapi.json")).json()["openapi"]
        assert (await browser.get(f"{provider.issuer}/jwks")).json()["keys"]


@pytest.mark.parametrize("url", [LOGIN_URL, "/me"])
def test_it_works_over_the_network_without_await(url: str) -> None:
    client = DevClient(client_id="app", any_local_uri=True)
    provider = DevProvider(users=[DevUser("bob")], clients=[client])
    with provider.serve() as issuer, free_socket() as (listener, origin):
        settings = OIDCSettings(
            issuer=issuer,
            client_id="app",
            cookie_secret="cookie-secret-of-at-least-32-bytes",
            base_url=origin,
            allow_insecure_http=True,
        )
        app = application(OIDC(settings), None, {})
        with serving(app, listener), httpx.Client(base_url=origin) as browser:
            assert sign_in_sync(browser, url, user="bob").json()["sub"] == "bob"
            assert browser.get("/me").json()["sub"] == "bob"


async def test_an_application_without_the_providers_transport_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_network(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no network", request=request)

    async with make_world(transport=httpx.MockTransport(no_network)).browser() as browser:
        assert (await sign_in(browser, LOGIN_URL, user="alice")).status_code == 502
    assert "OIDC(..., transport=httpx.ASGITransport(provider.app))" in caplog.text
