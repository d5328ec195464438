"""Control planes as real processes on one Redis: one serves a guest, this one ends its access."""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from fastapi_oidc import OIDC, OIDCSettings
from fastapi_oidc.broker import Access, Broker, Route
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser, sign_in
from tests.oidc.broker.apis import Api, serving
from tests.oidc.broker.guests import NAME, Guest
from tests.oidc.broker.rig import APIS, RESOURCE, TWO_HOURS
from tests.oidc.broker.streams import Stream, is_cut, streaming
from tests.oidc.world import BASE_URL, application
from tests.redis_server import redis_url as redis_url

PATIENCE = 60


@dataclass(slots=True)
class Process:
    """Another process, which serves accesses."""

    running: asyncio.subprocess.Process

    async def killed(self) -> None:
        self.running.kill()
        async with asyncio.timeout(PATIENCE):
            await self.running.wait()


@dataclass(slots=True)
class Plane:
    """This process, and what another one needs."""

    op: DevProvider
    oidc: OIDC[Any, Any]
    app: FastAPI
    broker: Broker
    api: Api
    told: dict[str, Any]

    def browser(self) -> httpx.AsyncClient:
        mounts = {BASE_URL: httpx.ASGITransport(self.app)}
        return httpx.AsyncClient(
            base_url=BASE_URL, mounts=mounts, follow_redirects=True, timeout=PATIENCE
        )

    async def given(self, browser: httpx.AsyncClient) -> Access:
        """The access that Alice gives a new machine."""
        machine = secrets.token_hex(8)
        await sign_in(browser, "/auth/login?return_to=/me", user="alice")
        [session] = await self.oidc.sessions_of("alice")
        return await self.broker.give(session, to=machine, routes=[NAME], until=TWO_HOURS)

    @asynccontextmanager
    async def elsewhere(self, path: Path, access: Access) -> AsyncIterator[Process]:
        """Another process, which serves the access at `path`."""
        running = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.oidc.broker.control_plane",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            told = json.dumps(self.told | {"path": str(path), "access": access.model_dump()})
            assert running.stdin is not None
            assert running.stdout is not None
            running.stdin.write(f"{told}\n".encode())
            async with asyncio.timeout(PATIENCE):
                assert await running.stdout.readline() == b"done\n"
            yield Process(running)
        finally:
            assert running.stdin is not None
            running.stdin.close()
            async with asyncio.timeout(PATIENCE):
                await running.wait()
            running._transport.close()  # type: ignore[attr-defined]


@pytest.fixture
async def plane(redis_url: str) -> AsyncIterator[Plane]:
    secret = secrets.token_urlsafe(32)
    op = DevProvider(
        users=[DevUser("alice")],
        clients=[
            DevClient(
                client_id="app",
                client_secret=secret,
                redirect_uris=[f"{BASE_URL}/auth/callback"],
                post_logout_redirect_uris=[f"{BASE_URL}/auth/logged-out"],
                backchannel_logout_uri=f"{BASE_URL}/auth/backchannel-logout",
            )
        ],
        resources=[DevResource(RESOURCE)],
    )
    with op.serve() as issuer:
        settings: dict[str, Any] = {
            "issuer": issuer,
            "client_id": "app",
            "client_secret": secret,
            "cookie_secret": secrets.token_urlsafe(32),
            "base_url": BASE_URL,
            "allow_insecure_http": True,
            "provider_timeout": PATIENCE,
        }
        oidc = OIDC(OIDCSettings(**settings), session_store=redis_url, downstream_apis=APIS)
        app = application(oidc, None, {})
        op.back_channel_transport = httpx.ASGITransport(app)
        async with serving(Api()) as api:
            route: dict[str, Any] = {
                "url": api.url,
                "allow": ["GET /events"],
                "resource": RESOURCE,
            }
            broker = Broker(oidc, {NAME: Route(**route)})
            told = {"settings": settings, "store": redis_url, "routes": {NAME: route}}
            yield Plane(op, oidc, app, broker, api, told | {"resource": RESOURCE})
            await broker.aclose()
        await oidc.aclose()


@dataclass(slots=True)
class Served:
    """Alice's access, which another process serves."""

    plane: Plane
    browser: httpx.AsyncClient
    access: Access
    guest: Guest
    process: Process


@pytest.fixture
async def served(plane: Plane, tmp_path: Path) -> AsyncIterator[Served]:
    path = tmp_path / "vsock_8080"
    async with plane.browser() as browser:
        access = await plane.given(browser)
        async with plane.elsewhere(path, access) as process:
            yield Served(plane, browser, access, Guest(str(path)), process)


ENDS = ["withdrawn", "signed_out"]


async def ended(served: Served, end: str) -> None:
    if end == "withdrawn":
        await served.plane.broker.withdraw(served.access)
    else:
        await served.plane.op.log_out("alice")


@pytest.mark.parametrize("end", ENDS)
async def test_an_end_cuts_a_stream_and_refuses_the_next_call_in_another_process(
    served: Served, end: str
) -> None:
    assert (await served.guest.get()).status_code == 200
    served.plane.api.answer = Stream()
    async with streaming(served.guest) as parts:
        await ended(served, end)
        refused = await served.guest.get()
        assert (refused.status_code, refused.text.partition(":")[0]) == (401, f"broker.{end}")
        assert await is_cut(parts)


@pytest.mark.parametrize("ends_meanwhile", [False, True])
async def test_access_survives_a_control_plane_that_is_killed_and_no_end(
    served: Served, ends_meanwhile: bool
) -> None:
    path = Path(served.guest.path)
    assert (await served.guest.get()).status_code == 200
    await served.process.killed()
    assert path.name in os.listdir(path.parent), "it was killed"
    if ends_meanwhile:
        assert (await served.browser.post("/auth/logout")).json() == {"is_authenticated": False}
    found = await served.plane.broker.access_of(served.access.machine)
    assert found is not None
    assert found.id == served.access.id
    async with served.plane.elsewhere(path, found):
        assert (await served.guest.get()).status_code == (401 if ends_meanwhile else 200)
        assert len(served.plane.api.received) == (1 if ends_meanwhile else 2)
