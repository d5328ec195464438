"""What counts as a Redis that does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import (
    ClusterDownError,
    NoPermissionError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
    SlotNotCoveredError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.redis.store import RedisUnresponsiveError

USUAL = 5.0
STORE = "fastapi_oidc.session.redis.store"


def failing(error: Exception) -> Callable[[Any], Awaitable[None]]:
    async def command(client: object) -> None:
        raise error

    return command


async def never(client: object) -> None:
    await asyncio.Event().wait()


async def answered(client: object) -> str:
    return "answer"


async def ask(store: RedisStore, command: Callable[[Any], Awaitable[Any]]) -> Any:
    """The reply, or the error of Redis."""
    try:
        return await store._run(command, "ask")
    except SessionError as error:
        raise (error.__cause__ or error) from None


def is_silent(store: RedisStore) -> bool:
    return store._reached.here().is_silent


async def silent(redis: Redis) -> RedisStore:
    """A store on a Redis that has not answered."""
    store = RedisStore(redis, timeout=0.01)
    with pytest.raises(TimeoutError):
        await ask(store, never)
    store._timeout = USUAL
    return store


@pytest.mark.parametrize("unanswered", [never, failing(RedisTimeoutError())])
async def test_a_redis_without_an_answer_in_time_is_asked_by_one_command_at_a_time(
    redis: Redis, unanswered: Callable[[Any], Awaitable[None]]
) -> None:
    store = RedisStore(redis, timeout=0.01)
    with pytest.raises((TimeoutError, RedisTimeoutError)):
        await ask(store, unanswered)
    store._timeout = USUAL
    for _ in range(2):  # whoever goes away while it asks leaves it to another
        asking = asyncio.create_task(ask(store, never))
        await asyncio.sleep(0)
        with pytest.raises(RedisUnresponsiveError):
            await ask(store, answered)
        asking.cancel()
        await asyncio.wait([asking])
    assert [await ask(store, answered) for _ in range(3)] == ["answer"] * 3
    assert not is_silent(store)


async def test_a_command_from_before_the_last_reply_ends_no_silence(redis: Redis) -> None:
    store = RedisStore(redis, timeout=0.2)
    earlier = asyncio.create_task(ask(store, never))
    await asyncio.sleep(0)
    await ask(store, answered)
    store._timeout = 0.01
    with pytest.raises(TimeoutError):
        await ask(store, never)
    with pytest.raises(TimeoutError):
        await earlier
    assert is_silent(store)


UNREACHED = [
    RedisConnectionError("late"),
    RedisClusterException("no node"),
    SlotNotCoveredError("one of them is gone"),
    ClusterDownError("the cluster is down"),
    OSError("late"),
]


@pytest.mark.parametrize("error", [*UNREACHED, ValueError("of ours")], ids=repr)
@pytest.mark.parametrize(
    ("long", "is_long"), [(0, True), (60, False)], ids=["after a wait", "at once"]
)
async def test_what_is_waited_for_in_vain_is_silence_and_what_fails_at_once_is_not(
    redis: Redis, error: Exception, long: int, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{STORE}.LONG_FAILURE", long)
    store = RedisStore(redis, timeout=USUAL)
    with pytest.raises(type(error)):
        await ask(store, failing(error))
    assert is_silent(store) is (is_long and error in UNREACHED)


@pytest.mark.parametrize(
    ("reply", "is_answer"),
    [
        (ResponseError("NOREPLICAS"), True),
        (ReadOnlyError("READONLY"), True),
        (NoPermissionError("NOPERM"), True),
        (ClusterDownError("of a node that knows of no whole cluster"), False),
    ],
)
async def test_an_error_reply_is_an_answer(
    redis: Redis, reply: ResponseError, is_answer: bool
) -> None:
    store = await silent(redis)
    with pytest.raises(type(reply)):
        await ask(store, failing(reply))
    assert is_silent(store) is not is_answer


async def test_a_redis_that_replies_to_others_is_not_unresponsive(redis: Redis) -> None:
    """A process with hardly any processor time is slow to read what has arrived."""
    store = RedisStore(redis, timeout=0.05)

    async def outlived(client: object) -> None:
        await ask(store, answered)
        await never(client)

    with pytest.raises(TimeoutError):
        await ask(store, outlived)
    assert not is_silent(store)
