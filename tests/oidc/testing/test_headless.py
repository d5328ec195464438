from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, sign_in, sign_in_sync
from tests.oidc.real_op.serving import free_socket, serving

LOGIN = "/auth/login?return_to=/me"
USERS = [DevUser("alice", "Alice"), DevUser("bob", "Bob")]


def app_of(provider: DevProvider, base_url: str, **settings: object) -> FastAPI:
    usual = {
        "issuer": provider.issuer,
        "client_id": "app",
        "cookie_secret": "cookie-secret-of-at-least-32-bytes",
        "base_url": base_url,
        "allow_insecure_http": True,
    }
    in_process = httpx.ASGITransport(provider.app) if base_url.startswith("https:") else None
    oidc = OIDC(OIDCSettings.model_validate(usual | settings), transport=in_process)
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/me")
    async def me(
        session: Annotated[OIDCSession[StandardIdentity], Depends(require_auth)],
    ) -> dict[str, str]:
        return {"sub": session.sub}

    return app


@pytest.fixture
def provider() -> DevProvider:
    client = DevClient(client_id="app", redirect_uris=["https://app.test/auth/callback"])
    return DevProvider(users=USERS, clients=[client])


@pytest.mark.parametrize("mode", ["query", "form_post"])
@pytest.mark.parametrize("user", ["alice", "bob"])
async def test_it_chooses_the_user_on_the_page(provider: DevProvider, user: str, mode: str) -> None:
    app = app_of(provider, "https://app.test", response_mode=mode)
    async with provider.browser(app, base_url="https://app.test") as browser:
        page = await sign_in(browser, LOGIN, user=user)
        assert (page.status_code, page.json()) == (200, {"sub": user})


async def test_it_opens_a_page_that_needs_a_session_as_a_person_does(
    provider: DevProvider,
) -> None:
    app = app_of(provider, "https://app.test")
    async with provider.browser(app, base_url="https://app.test") as browser:
        assert (await browser.get("/me")).status_code == 401
        page = await sign_in(browser, "/me", user="bob")
        assert (page.status_code, page.json()) == (200, {"sub": "bob"})


async def test_a_user_that_the_provider_does_not_know_is_named(provider: DevProvider) -> None:
    app = app_of(provider, "https://app.test")
    async with provider.browser(app, base_url="https://app.test") as browser:
        page = await sign_in(browser, "/me", user="carol")
    assert page.status_code == 400
    assert "there is no user &#x27;carol&#x27; here; there are: alice, bob" in page.text


async def test_a_browser_reaches_app_and_provider_without_a_socket() -> None:
    provider = DevProvider(users=USERS, clients=[])
    async with provider.browser(FastAPI(), base_url="https://app.test") as browser:
        assert (await browser.get("/openapi.json")).json()["openapi"]
        assert (await browser.get(f"{provider.issuer}/jwks")).json()["keys"]


@contextmanager
def served() -> Iterator[str]:
    """The origin of an app; it and its provider listen on sockets."""
    client = DevClient(client_id="app", any_local_uri=True)
    provider = DevProvider(users=USERS, clients=[client])
    with (
        provider.serve(),
        free_socket() as (listener, origin),
        serving(app_of(provider, origin), listener),
    ):
        yield origin


def test_it_works_over_the_network_without_await() -> None:
    with served() as origin, httpx.Client(base_url=origin) as browser:
        assert sign_in_sync(browser, LOGIN, user="bob").json() == {"sub": "bob"}


def test_without_await_it_opens_a_page_that_needs_a_session_too() -> None:
    with served() as origin, httpx.Client(base_url=origin) as browser:
        assert sign_in_sync(browser, "/me", user="bob").json() == {"sub": "bob"}
        assert browser.get("/me").json() == {"sub": "bob"}
