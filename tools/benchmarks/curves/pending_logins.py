"""Requests of a browser over the logins that it has begun and not finished."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import httpx
from fastapi import FastAPI
from starlette.types import Message

from tools.benchmarks.curves.growth import Place, grown, lines, measured
from tools.benchmarks.curves.pictures import Lines
from tools.benchmarks.oidc_login_apps import BASE_URL, a_dev_provider, authlib_app, our_app
from tools.benchmarks.oidc_logins import one_login
from tools.benchmarks.oidc_sessions import a_scope
from tools.benchmarks.oidc_stores import batch_of
from tools.benchmarks.rounds import Batch
from tools.benchmarks.targets import Target

BEGUN: Final = (0, 1, 2, 4, 8, 16, 32)
APPLICATIONS: Final = {"ours": our_app, "authlib, SessionMiddleware": authlib_app}
ASKED: Final = {"/me": "a signed-in request", "/auth/login": "another login is begun"}
GROWS_AT_MOST: Final = 4.0
"""A browser of ours has up to eight pending logins, and all of them come with each request."""


def request_over_pending_logins(
    begun: tuple[int, ...] = BEGUN, *, rounds: int = 31, calls: int = 4
) -> Lines:
    """Measures a signed-in request, and the beginning of one more login."""
    with a_dev_provider() as issuer, asyncio.Runner() as runner:
        cases: dict[Place, Batch] = {}
        apps = {name: make(issuer) for name, make in APPLICATIONS.items()}
        # Neighbours in a turn are of the same kinds at every amount: each leaves its traces.
        for amount in begun:
            for name, app in apps.items():
                cookie = runner.run(_cookie_after(app, issuer, amount))
                for path, what in ASKED.items():
                    place = (f"{name}: {what}", amount)
                    cases[place] = batch_of(runner, _asking(app, path, cookie))
        figures = measured(cases, rounds=rounds, calls=calls)
    return Lines(
        title="Requests over the logins that a browser has begun and not finished",
        x="logins begun and not finished",
        y="µs for a request, in the process",
        y_scale="log",
        lines=lines(figures, begun),
        note=f"Quickest of {rounds} rounds of {calls}, in turns. Pending logins live in "
        "the browser: eight of ours (a ninth ends the first), one of authlib (a second ends it).",
        targets=[
            Target(f"{begun[-1]} / 0 pending logins, {what}", grown(figures, f"ours: {what}"), most)
            for what, most in zip(ASKED.values(), (1.5, GROWS_AT_MOST), strict=True)
        ],
    )


async def _cookie_after(app: FastAPI, issuer: str, begun: int) -> str:
    """What a browser sends that is signed in and has begun so many logins since."""
    async with httpx.AsyncClient(
        base_url=BASE_URL,
        transport=httpx.ASGITransport(app),
        mounts={issuer: httpx.AsyncHTTPTransport()},
        follow_redirects=True,
    ) as browser:
        await one_login(browser)
        for _ in range(begun):
            await browser.get("/auth/login", follow_redirects=False)
        cookies = [each for each in browser.cookies.jar if "app.test" in each.domain]
    return "; ".join(f"{each.name}={each.value}" for each in cookies)


def _asking(app: FastAPI, path: str, cookie: str) -> Callable[[], Awaitable[None]]:
    """Asks once; the cookies of the answer are not kept, so that the next one costs the same."""
    headers = [(b"host", b"app.test"), (b"cookie", cookie.encode())]
    scope = {"path": path, "raw_path": path.encode()}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message.get("status", 200) >= 400:
            raise RuntimeError(f"the benchmark was answered {message['status']}")

    async def ask() -> None:
        await app(a_scope(headers) | scope, receive, send)

    return ask
