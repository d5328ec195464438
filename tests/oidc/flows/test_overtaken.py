"""What was found before a wait has ended, moved on or failed after it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, get_args

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.background import BackgroundTask
from starlette.responses import RedirectResponse, Response

from fastapi_oidc import OIDC, Clock, MemoryStore, SignedIn
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.flows.endings import Endings
from fastapi_oidc.flows.resume import refresh_now
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.session import rows
from fastapi_oidc.session.model import EndReason
from fastapi_oidc.session.store import Cell, Stored
from fastapi_oidc.testing import TokenRevoked, sign_in
from fastapi_oidc.testing.faults import Answer
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LEASE,
    LOCAL,
    SHORTLY_BEFORE_EXPIRY,
    callback_url,
    copy_of,
    generation,
    others_have_run,
    returned,
    signed_out,
    stores_of,
    two_processes,
    until,
    user,
)
from tests.oidc.flows.test_lost_moments import STEP_UP, world_of
from tests.oidc.flows.test_silent_login import IFRAME
from tests.oidc.interleaving import Gate, Held, another_process, begun, same_browser
from tests.oidc.world import LOGIN_URL, Time, make_world


@dataclass(slots=True)
class HeldOutage:
    """A fault of the provider: it is unavailable, which is known when the gate is opened."""

    gate: Gate = field(default_factory=Gate)

    async def happen(self, _: Answer) -> Response:
        await self.gate.passed()
        return Response(status_code=503)


class Repeating(MemoryStore):
    """Loses the reply of the next change of a session's row, and repeats the command."""

    loses = False

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        found = await super().swap(key, before, after)
        if self.loses and found is None and ":session:" in key:
            self.loses = False
            return await super().swap(key, before, after)
        return found


async def silent_callback(browser: httpx.AsyncClient) -> str:
    """Where the provider sends the hidden iframe of a silent login."""
    url = "/auth/login?silent=1"
    while "/auth/callback" not in url:
        answer = await browser.get(url, headers=IFRAME, follow_redirects=False)
        url = answer.headers["location"]
    return url


@pytest.mark.parametrize("how", ["session", "user"])
async def test_a_login_that_ended_before_its_first_response_signs_nobody_in(
    mode: str, how: str
) -> None:
    """The request that began it went away; the application is told of no login."""
    told: list[SignedIn[Any]] = []

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        def on_success(_: Request, signed_in: SignedIn[Any]) -> None:
            told.append(signed_in)

        app.router.routes.clear()
        app.get("/auth/callback")(oidc.callback_handler(on_success=on_success))
        app.include_router(oidc.router, prefix="/auth")

    world, _ = world_of(mode, mount=mount)
    browser, held = world.browser(), Held()
    url = await callback_url(browser)
    world.op.faults.put("token", held)
    leaving = begun(browser.get(url))
    await held.gate.until_reached()
    leaving.cancel()
    held.gate.opened.set()
    await others_have_run()
    assert world.event_names()[-1] == "login.succeeded"
    name = {"session_id": world.events[-1].session_id} if how == "session" else {"sub": "alice"}
    await world.oidc.revoke(**name)
    assert await returned(browser, url) is None
    assert not told


async def test_a_login_that_cannot_be_judged_is_there_at_the_next_reload(mode: str) -> None:
    world, outage = fallible_world(mode)
    browser, held = world.browser(), Held()
    url = await callback_url(browser)
    world.op.faults.put("token", held)
    leaving = begun(browser.get(url))
    await held.gate.until_reached()
    leaving.cancel()
    held.gate.opened.set()
    await others_have_run()
    outage.is_down = True
    assert (await browser.get(url)).status_code == 503
    outage.is_down = False
    assert await returned(browser, url) == "/me"
    assert await user(browser) == "alice"
