"""Control planes as real processes on one Redis: one serves the guest, another one withdraws."""

from __future__ import annotations

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

from fastapi_oidc import OIDC, OIDCSettings
from fastapi_oidc.broker import Broker, Route
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser, sign_in
from tests.oidc.broker.apis import Api, serving
from tests.oidc.broker.guests import NAME, Guest
from tests.oidc.broker.rig import APIS, RESOURCE, TWO_HOURS
from tests.oidc.broker.streams import Stream, is_cut, streaming
from tests.oidc.world import BASE_URL, application
from tests.redis_server import redis_url as redis_url

PATIENCE = 30


@dataclass(slots=True)
class Plane:
    """This process, and what another one needs."""

    oidc: OIDC[Any, Any]
    broker: Broker
    session: Any
    api: Api
    told: dict[str, Any]

    @asynccontextmanager
    async def elsewhere(self, path: Path) -> AsyncIterator[Any]:
        """Another process, which serves the access of a new machine."""
        routes, machine = [NAME], secrets.token_hex(8)
        access = await self.broker.give(self.session, to=machine, routes=routes, until=TWO_HOURS)
        told = self.told | {"access": access.model_dump(), "path": str(path)}
        async with running(told) as process:
            yield access, process


@asynccontextmanager
async def running(told: dict[str, Any]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.oidc.broker.control_plane",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(told).encode() + b"\n")
    try:
        async with asyncio.timeout(PATIENCE):
            assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


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
        }
        oidc = OIDC(OIDCSettings(**settings), session_store=redis_url, downstream_apis=APIS)
        app = application(oidc, None, {})
        async with (
            serving(Api()) as api,
            httpx.AsyncClient(
                base_url=BASE_URL,
                mounts={BASE_URL: httpx.ASGITransport(app)},
                follow_redirects=True,
            ) as browser,
        ):
            await sign_in(browser, "/auth/login?return_to=/me", user="alice")
            [session] = await oidc.sessions_of("alice")
            route: dict[str, Any] = {"url": api.url, "allow": ["GET /events"], "resource": RESOURCE}
            broker = Broker(oidc, {NAME: Route(**route)})
            told = {"settings": settings, "store": redis_url, "routes": {NAME: route}}
            yield Plane(oidc, broker, session, api, told | {"resource": RESOURCE})
            await broker.aclose()
        await oidc.aclose()


@pytest.mark.parametrize("code", ["broker.withdrawn", "broker.signed_out"])
async def test_an_end_in_one_process_cuts_a_stream_and_the_next_call_in_another(
    plane: Plane, tmp_path: Path, code: str
) -> None:
    guest = Guest(str(tmp_path / "vsock_8080"))
    async with plane.elsewhere(Path(guest.path)) as (access, _):
        assert (await guest.get()).status_code == 200
        plane.api.answer = Stream()
        async with streaming(guest) as parts:
            if code == "broker.withdrawn":
                await plane.broker.withdraw(access)
            else:
                await plane.oidc.revoke(sub="alice")
            refused = await guest.get()
            assert (refused.status_code, refused.text.partition(":")[0]) == (401, code)
            assert await is_cut(parts)


async def test_access_survives_a_control_plane_that_is_killed(plane: Plane, tmp_path: Path) -> None:
    guest = Guest(str(tmp_path / "vsock_8080"))
    async with plane.elsewhere(Path(guest.path)) as (access, process):
        assert (await guest.get()).status_code == 200
        process.kill()
        await process.wait()
    assert "vsock_8080" in os.listdir(tmp_path), "it was killed"
    found = await plane.broker.access_of(access.machine)
    assert found is not None
    assert found.id == access.id
    told = plane.told | {"access": found.model_dump(), "path": guest.path}
    async with running(told):
        assert (await guest.get()).status_code == 200
