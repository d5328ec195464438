"""Tasks, processes and browsers that ask for a session's tokens at the same time.

A process that dies is one that never continues.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from fastapi_oidc import Code, SessionError
from fastapi_oidc.protocol.downstream import GrantKind
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.sql import SQLStore
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    copy_of,
    generation,
    shared_stores,
    two_processes,
    until,
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


@pytest.mark.parametrize("has_new_sid", [False, True])
async def test_a_browser_joins_the_refresh_of_a_grant(has_new_sid: bool) -> None:
    """It keeps its own reference: the grant has none with a secret, which a new `sid` needs."""
    world = make_world(session_store="memory")
    browser, held = await world.signed_in(), Held()
    grant = await world.oidc.grant(session_id(world))
    world.time.advance(AFTER_EXPIRY)
    world.op.faults.put("token", held)
    if has_new_sid:
        world.op.edits.put("id_token", lambda claims: claims | {"sid": "another"})
    asked = asyncio.create_task(grant.access_token())
    await held.gate.until_reached()
    page = begun(browser.get("/me"))
    held.gate.opened.set()
    assert (await page).json()["generation"] == 1
    assert ("set-cookie" in (await page).headers) is has_new_sid
    assert (await asked).issued_at == world.time.now
    assert await generation(browser) == 1
    assert issued(world) == 1
    await browser.post("/auth/logout", data={"local": "1"}, headers={"origin": "https://app.test"})
    with pytest.raises(SessionError):
        await grant.access_token()


async def test_a_sid_that_changed_in_the_refresh_of_a_grant_ends_the_browser_s_session() -> None:
    """Its cookie names the revocation records of the former `sid`."""
    world = make_world(session_store="memory")
    browser = await world.signed_in()
    grant = await world.oidc.grant(session_id(world))
    world.op.edits.put("id_token", lambda claims: claims | {"sid": "another"})
    world.time.advance(AFTER_EXPIRY)
    await grant.access_token()
    assert await generation(browser) == 1
    await world.oidc.revoke(sid="another")
    assert await generation(browser) is None


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
    with pytest.raises(SessionError):
        await there.oidc.grant("unknown")


async def test_an_idle_session_is_no_longer_used_by_its_grants() -> None:
    world = make_world(session_store="memory", settings={"idle_timeout": 600})
    await world.signed_in()
    grant = await world.oidc.grant(session_id(world))
    for _ in range(3):
        world.time.advance(190)
        await grant.access_token()
    world.time.advance(190)
    with pytest.raises(SessionError):
        await grant.access_token()


async def test_a_revocation_while_a_token_is_exchanged_reaches_another_process() -> None:
    here, there = in_store()
    await here.signed_in()
    grant = await here.oidc.grant(session_id(here), resource=CALENDAR)
    held = Held(first=True)
    here.op.faults.put("token", held)
    asked = asyncio.create_task(grant.access_token())
    await held.gate.until_reached()
    await there.oidc.revoke(sub="alice")
    held.gate.opened.set()
    with pytest.raises(SessionError):
        await asked
    assert here.op.record.calls["revocation"] == 1


async def test_stores_that_are_down_are_an_outage() -> None:
    time = Time()
    outage, stores = fallible("store", time)
    world = make_world(**described("token_exchange", time=time, **stores))
    await world.signed_in()
    own = await world.oidc.grant(session_id(world))
    calendar = await world.oidc.grant(session_id(world), resource=CALENDAR)
    token = await calendar.access_token()
    outage.is_down = True
    for grant in (own, calendar):
        with pytest.raises(SessionError) as caught:
            await grant.access_token()
        assert caught.value.is_outage
    outage.is_down = False
    assert await calendar.access_token() == token


async def test_a_store_that_is_down_when_the_token_comes_loses_nothing() -> None:
    """Nor does the request wait until the store is back."""
    time = Time()
    outage, stores = fallible("store", time)
    outage.failing = frozenset({"swap"})
    world = make_world(**described("token_exchange", time=time, **stores))
    await world.signed_in()
    grant, held = await world.oidc.grant(session_id(world), resource=CALENDAR), Held(first=True)
    world.op.faults.put("token", held)
    asked = asyncio.create_task(grant.access_token())
    await held.gate.until_reached()
    outage.is_down = True
    held.gate.opened.set()
    async with asyncio.timeout(5):
        token = await asked
    outage.is_down = False
    await until(lambda: not world.oidc.runtime.party.sessions.cells.last_steps)
    assert await grant.access_token() == token
    assert issued(world, GRANT_TYPES["token_exchange"]) == 1


async def test_cookies_share_tokens_for_apis_by_their_records() -> None:
    time = Time()
    shared = shared_stores("cookie", time) | {"downstream_apis": apis("token_exchange")}
    here = make_world(**described("token_exchange", time=time, **shared))
    there = another_process(here, **shared)
    for world in (here, there):
        mount_calendar(world)
    browser = await here.signed_in()
    for world in (here, there):
        assert (await copy_of(browser, world).get("/calendar")).json() == 200
    assert issued(here, GRANT_TYPES["token_exchange"]) == 1


async def test_shutdown_waits_for_a_token_that_was_asked_for() -> None:
    world = make_world(**described("token_exchange", session_store="memory"))
    await world.signed_in()
    grant, held = await world.oidc.grant(session_id(world), resource=CALENDAR), Held(first=True)
    world.op.faults.put("token", held)
    asked = asyncio.create_task(grant.access_token())
    await held.gate.until_reached()
    closing = asyncio.create_task(world.oidc.aclose())
    await asyncio.sleep(0)
    assert not closing.done()
    held.gate.opened.set()
    await closing
    assert (await asked).value


def mount_calendar(world: World) -> None:
    @world.app.get("/calendar")
    async def calendar(session: Session) -> int:
        return await Api(world).status(world.oidc.auth(session, resource=CALENDAR))
