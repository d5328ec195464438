"""A refresh and token requests for other APIs that are under way for one session at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, IssuedToken
from tests.oidc.flows.steps import copy_of, others_have_run, shared_stores
from tests.oidc.grants.api import issued, session_id
from tests.oidc.grants.conftest import Session
from tests.oidc.grants.test_downstream_apis import CALENDAR, described
from tests.oidc.interleaving import Held, another_process, begun
from tests.oidc.world import Time, World, make_world


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/refreshed")
    async def refreshed(request: Request) -> str:
        return (await oidc.refresh(request)).tokens.access_token

    @app.get("/token")
    async def token(session: Session) -> str:
        return session.tokens.access_token


def processes() -> tuple[World, World]:
    time = Time()
    shared = shared_stores("store", time)
    here = make_world(time=time, **described("refresh_token", mount=mount, **shared))
    described_again = described("refresh_token", mount=mount, **shared)
    del described_again["provider"], described_again["settings"]
    return here, another_process(here, **described_again)


async def token_for(world: World, resource: str) -> IssuedToken:
    grant = await world.oidc.grant(session_id(world), resource=resource)
    return await grant.access_token()


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_a_forced_refresh_waits_for_an_apis_token_and_refreshes_then(
    is_elsewhere: bool,
) -> None:
    here, there = processes()
    browser = copy_of(await here.signed_in(), there if is_elsewhere else here)
    before = (await browser.get("/token")).json()
    held = Held(first=True)
    here.op.faults.put("token", held)
    calendar = asyncio.create_task(token_for(here, CALENDAR))
    await held.gate.until_reached()
    refreshed = begun(browser.get("/refreshed"))
    await others_have_run()
    held.gate.opened.set()
    await calendar
    assert (await refreshed).json() != before
    assert issued(here) == 2, "one for the API, one for the session"
