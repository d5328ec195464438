"""Tasks, processes and browsers that ask for a session's tokens at the same time.

A process that dies is one that never continues."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from redis.asyncio import Redis

from fastapi_oidc import OIDC, Code, IssuedToken, OIDCError, SessionError
from fastapi_oidc.protocol.downstream import GrantKind
from fastapi_oidc.session import rows
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.rows import LEASE_SECONDS
from fastapi_oidc.session.sql import SQLStore
from fastapi_oidc.testing import TokenRevoked
from tests.oidc.flows.steps import (
    copy_of,
    generation,
    others_have_run,
    shared_stores,
    two_processes,
)
from tests.oidc.grants.api import Api, issued, session_id
from tests.oidc.grants.conftest import Session
from tests.oidc.grants.test_downstream_apis import CALENDAR, GRANT_TYPES, apis, described
from tests.oidc.interleaving import Held, another_process, begun
from tests.oidc.world import Time, World, make_world
from tests.redis_server import redis_url as redis_url

NEARLY_EXPIRED = 250
"""Seconds after which a token of 300 is not valid for the next minute, and is not refreshed yet."""


async def processes_with(store: Callable[[], Any]) -> AsyncIterator[tuple[World, World]]:
    """Two processes, each with a store of its own on the same server."""
    options = described("token_exchange", back_channel_logout_store=None)
    here = make_world(session_store=store(), **options)
    there = another_process(here, session_store=store(), downstream_apis=apis("token_exchange"))
    yield here, there
    await here.oidc.aclose()
    await there.oidc.aclose()


def on_redis_at(url: str) -> Callable[[], Any]:
    prefix = f"{secrets.token_hex(8)}:"
    return lambda: RedisStore(url, prefix=prefix)


@pytest.fixture
async def on_redis(redis_url: str) -> AsyncIterator[tuple[World, World]]:
    async for processes in processes_with(on_redis_at(redis_url)):
        yield processes


@pytest.fixture(params=["redis", "sqlite"])
async def processes(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[World, World]]:
    """Two processes with one server."""
    if request.param == "redis":
        store = on_redis_at(request.getfixturevalue("redis_url"))
    else:
        url = f"sqlite+aiosqlite:///{tmp_path / 'sessions.db'}"
        store = partial(SQLStore, url)
        tables = store()
        await tables.create_tables()
        await tables.aclose()
    async for worlds in processes_with(store):
        yield worlds


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


async def test_tokens_for_apis_are_sealed(on_redis: tuple[World, World], redis_url: str) -> None:
    here, _ = on_redis
    await here.signed_in()
    id = session_id(here)
    token = await (await here.oidc.grant(id, resource=CALENDAR)).access_token()
    client = Redis.from_url(redis_url)
    keys = [key async for key in client.scan_iter(f"*token:{id}/*")]
    [content] = [await client.get(key) for key in keys]
    assert token.value not in repr(content)
    assert await client.ttl(keys[0]) > 8 * 3600
    await client.aclose()


def in_store(kind: GrantKind = "token_exchange") -> tuple[World, World]:
    return two_processes("store", **described(kind))


async def test_a_grant_ends_with_its_session() -> None:
    here, there = in_store()
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


def joined_processes() -> tuple[World, World]:
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
    here, there = joined_processes()
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


"""Seconds after which a token of 300 is not valid for the next minute, and is not refreshed yet."""


def mount_stream(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    async def statuses(session: Any) -> AsyncIterator[str]:
        """One request to the API at once, and one when the token is nearly over."""
        auth = oidc.auth(session)
        for seconds in (0, NEARLY_EXPIRED):
            app.state.world.time.advance(seconds)
            try:
                yield str(await app.state.api.status(auth))
            except OIDCError as error:
                yield str(error.code)

    @app.get("/stream")
    async def stream(session: Session) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            async for status in statuses(session):
                yield f"{status}\n"

        return StreamingResponse(lines())


@pytest.fixture
def world(mode: str) -> World:
    world = make_world(mount=mount_stream, session_store="memory" if mode == "store" else None)
    world.app.state.world, world.app.state.api = world, Api(world)
    return world


def expected(mode: str) -> list[str]:
    return ["200", "200" if mode == "store" else str(Code.SESSION_RESPONSE_STARTED)]


async def test_an_event_stream_refreshes_in_a_store_alone(world: World, mode: str) -> None:
    browser = await world.signed_in()
    response = await browser.get("/stream")
    assert response.text.split() == expected(mode)
    assert issued(world) == (mode == "store")


async def test_a_token_that_comes_after_another_attempts_is_revoked_and_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sign-out revokes the tokens that are stored; this one would outlive it."""
    here, there = in_store()
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
