"""Four processes, one session, one refresh."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from fastapi_oidc.testing import DevClient, DevProvider, DevUser, TokensIssued, sign_in
from tests.redis_server import redis_url as redis_url

PROCESSES = 4
REQUESTS = 100
REPOSITORY = Path(__file__).parents[3]


@contextmanager
def worker(configuration: dict[str, Any]) -> Iterator[str]:
    """A process that serves the application; yields its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.oidc.flows.refresh_worker"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(configuration))
        process.stdin.close()
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


async def until_up(address: str) -> None:
    async with httpx.AsyncClient() as client:
        for _ in range(200):
            try:
                await client.get(f"{address}/me")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return
    pytest.fail("a worker did not start")


def refreshes(op: DevProvider) -> int:
    return sum(event.grant_type == "refresh_token" for event in op.record.of(TokensIssued))


@pytest.mark.parametrize("mode", ["cookie", "store"])
async def test_one_refresh_over_four_processes(mode: str, redis_url: str) -> None:
    secret = secrets.token_urlsafe(32)
    client = DevClient(client_id="app", client_secret=secret, any_local_uri=True)
    op = DevProvider(users=[DevUser("alice")], clients=[client])
    with op.serve() as issuer, ExitStack() as stack:
        configuration = {
            "settings": {
                "issuer": issuer,
                "client_id": "app",
                "client_secret": secret,
                "cookie_secret": secrets.token_urlsafe(32),
                "allow_insecure_http": True,
                "scope": ["openid", "offline_access"],
            },
            "redis_url": redis_url,
            "prefix": f"test-{secrets.token_hex(4)}:",
            "mode": mode,
        }
        addresses = [stack.enter_context(worker(configuration)) for _ in range(PROCESSES)]
        await asyncio.gather(*map(until_up, addresses))

        op.edits.put("token_response", lambda said: said | {"expires_in": 1})
        async with httpx.AsyncClient(base_url=addresses[0]) as browser:
            await sign_in(browser, "/auth/login?return_to=/auth/session-management", user="alice")
            cookies = dict(browser.cookies)
        op.edits.clear()
        await asyncio.sleep(1.1)  # the access token has expired

        async with httpx.AsyncClient(cookies=cookies, timeout=60) as browser:
            urls = [f"{addresses[turn % PROCESSES]}/me" for turn in range(REQUESTS)]
            answers = await asyncio.gather(*map(browser.get, urls))
            late = await browser.get(urls[1])
        assert {answer.status_code for answer in [*answers, late]} == {200}
        assert {answer.json()["generation"] for answer in [*answers, late]} == {1}
        assert refreshes(op) == 1
