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
from tests.oidc.flows.steps import (
    copy_of,
    generation,
    two_processes,
)
from tests.oidc.grants.api import issued, session_id
from tests.oidc.grants.test_downstream_apis import CALENDAR, GRANT_TYPES, apis, described
from tests.oidc.interleaving import another_process
from tests.oidc.world import World, make_world
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
    with pytest.raises(SessionError):
        await there.oidc.grant("unknown")
