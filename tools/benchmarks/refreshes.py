"""One request that refreshes the tokens, beside one that does not and the token call alone.

The provider runs in this process, so that its machine and the network are left out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import httpx

from fastapi_oidc import Clock
from tools.benchmarks.applications import TOKEN, browser_of, our_application, sign_in
from tools.benchmarks.figures import Figure
from tools.benchmarks.provider import CLIENT_ID, Lives, RotatingProvider
from tools.benchmarks.redis_server import redis_server
from tools.benchmarks.rounds import Batch, awaited, costs

ROUNDS, REQUESTS = 61, 10
ISSUER: Final = "https://op.example.com"
LIVES: Final = Lives(first=4, later=4)
STEP: Final = 3
"""Seconds that the clock advances before a request, so that a refresh is due."""


def figures() -> Iterator[Figure]:
    """Milliseconds of wall time, medians."""
    with ExitStack() as stack:
        runner, url = stack.enter_context(asyncio.Runner()), stack.enter_context(redis_server())
        cases = {
            "the token call alone, by httpx": token_call(runner),
            "cookie, no refresh": visits(runner, 0),
            "cookie, refresh": visits(runner, STEP),
            "memory store, refresh": visits(runner, STEP, session_store="memory"),
            "cookie with rows on Redis, refresh": visits(
                runner, STEP, back_channel_logout_store=url
            ),
            "Redis store, refresh": visits(runner, STEP, session_store=url),
        }
        measured = costs(cases, rounds=ROUNDS, calls=REQUESTS)
    for name, cost in measured.items():
        yield Figure(name, cost.median / 1000, "ms")


def visits(runner: asyncio.Runner, step: int, **options: Any) -> Batch:
    """A browser that keeps its cookies; so many seconds pass before each of its requests."""
    passed = 0
    clock = Clock(read=lambda: time.time() + passed)
    provider = RotatingProvider(ISSUER, LIVES if step else Lives())
    app, _ = our_application(ISSUER, provider=provider.app, clock=clock, **options)
    browser = browser_of(app)
    runner.run(sign_in(browser))

    async def visit() -> None:
        nonlocal passed
        passed += step
        response = await browser.get(TOKEN)
        token = response.raise_for_status().json()["access_token"]
        if not token.endswith(f".{passed // STEP}"):
            raise RuntimeError(f"the access token is {token} after {passed} seconds")

    return awaited(runner, visit)


def token_call(runner: asyncio.Runner) -> Batch:
    """What httpx and the provider take of a refresh."""
    provider = RotatingProvider(ISSUER, Lives())
    client = httpx.AsyncClient(transport=httpx.ASGITransport(provider.app))
    form = {"grant_type": "refresh_token", "client_id": CLIENT_ID, "refresh_token": "user.0"}

    async def call() -> None:
        response = await client.post(f"{ISSUER}/token", data=form)
        form["refresh_token"] = response.raise_for_status().json()["refresh_token"]

    return awaited(runner, call)
