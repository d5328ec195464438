"""Tasks, processes and browsers that ask for a session's tokens at the same time.

A process that dies is one that never continues."""

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, Code, IssuedToken, SessionError
from fastapi_oidc.session import rows
from fastapi_oidc.session.rows import LEASE_SECONDS
from fastapi_oidc.testing import TokenRevoked
from tests.oidc.flows.steps import (
    copy_of,
    generation,
    others_have_run,
    two_processes,
)
from tests.oidc.grants.api import issued, session_id
from tests.oidc.grants.conftest import Session
from tests.oidc.grants.test_downstream_apis import CALENDAR, GRANT_TYPES, described
from tests.oidc.interleaving import Held, begun
from tests.oidc.world import World

NEARLY_EXPIRED = 250
"""Seconds after which a token of 300 is not valid for the next minute, and is not refreshed yet."""


@pytest.fixture
def processes() -> tuple[World, World]:
    return two_processes("store", **described("token_exchange"))


async def test_fifty_tasks_in_two_processes_make_one_token_call(
    processes: tuple[World, World],
) -> None:
    here, there = processes
    browser = await here.signed_in()
    id = session_id(here)
    grants = [await world.oidc.grant(id) for world in (here, there) for _ in range(25)]
    for number in range(1, 4):
        here.time.advance(NEARLY_EXPIRED)
        tokens = await asyncio.gather(*(grant.access_token() for grant in grants))
        assert len({token.value for token in tokens}) == 1
        assert issued(here) == number
    grants = [await here.oidc.grant(id, resource=CALENDAR) for _ in range(25)]
    grants += [await there.oidc.grant(id, resource=CALENDAR) for _ in range(25)]
    tokens = await asyncio.gather(*(grant.access_token() for grant in grants))
    assert len({token.value for token in tokens}) == 1
    assert issued(here, GRANT_TYPES["token_exchange"]) == 1
    assert await generation(browser) == 3
    assert await generation(copy_of(browser, there)) == 3


async def test_a_token_for_an_api_is_sealed(processes: tuple[World, World]) -> None:
    here, _ = processes
    await here.signed_in()
    grant = await here.oidc.grant(session_id(here), resource=CALENDAR)
    token = await grant.access_token()
    values = here.oidc.registrations.engine.store._values  # type: ignore[attr-defined]
    [key] = [each for each in values._entries if each.startswith("oidc:token:")]
    assert token.value not in repr(values.get(key))
    assert values.expires_at(key) > here.time() + 8 * 3600


async def test_a_grant_ends_with_its_session(processes: tuple[World, World]) -> None:
    here, there = processes
    await here.signed_in()
    grants = [await world.oidc.grant(session_id(here)) for world in (here, there)]
    await here.oidc.revoke(session_id=session_id(here))
    for grant in grants:
        with pytest.raises(SessionError) as caught:
            await grant.access_token()
        assert caught.value.code is Code.SESSION_REQUIRED
    with pytest.raises(SessionError):
        await there.oidc.grant(session_id(here))
    with pytest.raises(SessionError, match="this is no session's id"):
        await there.oidc.grant("alice")
    with pytest.raises(SessionError, match="there is none"):
        await there.oidc.grant("x" * len(session_id(here)))


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/refreshed")
    async def refreshed(request: Request) -> str:
        return (await oidc.refresh(request)).tokens.access_token

    @app.get("/token")
    async def token(session: Session) -> str:
        return session.tokens.access_token


async def token_for(world: World, resource: str) -> IssuedToken:
    grant = await world.oidc.grant(session_id(world), resource=resource)
    return await grant.access_token()


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_a_forced_refresh_waits_for_an_apis_token_and_refreshes_then(
    is_elsewhere: bool,
) -> None:
    here, there = two_processes("store", **described("refresh_token", mount=mount))
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


async def test_a_token_that_comes_after_another_attempts_is_revoked_and_not_used(
    processes: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign-out revokes the tokens that are stored; this one would outlive it."""
    here, there = processes
    await here.signed_in()
    id, held = session_id(here), Held()
    grants = [await world.oidc.grant(id, resource=CALENDAR) for world in (here, there)]
    here.op.faults.put("token", held)
    late = asyncio.create_task(grants[0].access_token())
    await held.gate.until_reached()
    monkeypatch.setattr(rows, "WATCH_SECONDS", 0.0)
    here.time.advance(LEASE_SECONDS + 1)  # paused for so long that its row is taken
    stored = await grants[1].access_token()
    held.gate.opened.set()
    assert (await late).value == stored.value
    assert len(here.op.record.of(TokenRevoked)) == 1
    assert (await grants[0].access_token()).value == stored.value
