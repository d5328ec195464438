"""How many logins one process completes, with the provider and the browser in it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from typing import Annotated

import httpx
from fastapi import Depends, FastAPI

from benchmarks.targets import Target
from fastapi_oidc import (
    OIDC,
    OIDCMiddleware,
    OIDCSession,
    OIDCSettings,
    StandardIdentity,
    require_auth,
)
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, sign_in

LOGINS = 200
BASE_URL = "https://app.test"


def login_targets() -> Iterator[Target]:
    """Signs in again and again, and shows how often in a second."""
    asyncio.run(_measure())
    yield from ()


async def _measure() -> None:
    op, app = a_provider_and_an_app()
    async with op.browser(app, base_url=BASE_URL) as browser:
        await one_login(browser)
        clock, processor = time.perf_counter(), time.process_time()
        for _ in range(LOGINS):
            await one_login(browser)
        wall, cpu = time.perf_counter() - clock, time.process_time() - processor
    print(f"\n{LOGINS} logins one after the other, provider and browser in the process:")
    print(f"  {LOGINS / wall:.0f} a second, {cpu / LOGINS * 1000:.2f} ms of the processor each")


async def one_login(browser: httpx.AsyncClient) -> None:
    browser.cookies.clear()
    answer = await sign_in(browser, "/auth/login?return_to=/me", user="alice")
    answer.raise_for_status()


def a_provider_and_an_app() -> tuple[DevProvider, FastAPI]:
    secret = secrets.token_urlsafe(32)
    client = DevClient(
        client_id="app", client_secret=secret, redirect_uris=[f"{BASE_URL}/auth/callback"]
    )
    op = DevProvider(users=[DevUser("alice", "Alice")], clients=[client])
    settings = OIDCSettings(
        issuer=op.issuer,
        client_id="app",
        client_secret=secret,
        cookie_secret=secrets.token_urlsafe(32),
        base_url=BASE_URL,
    )
    oidc: OIDC[StandardIdentity] = OIDC(settings, transport=httpx.ASGITransport(op.app))
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")

    @app.get("/me")
    async def me(
        session: Annotated[OIDCSession[StandardIdentity], Depends(require_auth)],
    ) -> dict[str, str]:
        return {"sub": session.sub}

    return op, app
