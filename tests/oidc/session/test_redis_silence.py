"""What counts as a Redis that does not answer, for all that is made of one client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
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

from fastapi_oidc.session.redis.circuit import Circuit, RedisUnresponsiveError
from fastapi_oidc.session.redis.connections import Connections
from tests.oidc.session.test_redis_circuit import Seconds

USUAL = 5.0
CONNECTIONS = "fastapi_oidc.session.redis.connections"


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def failing(error: Exception) -> Callable[[Any], Awaitable[None]]:
    async def command(client: object) -> None:
        raise error

    return command


async def never(client: object) -> None:
    await asyncio.Event().wait()


async def answered(client: object) -> str:
    return "answer"


@pytest.fixture
def driven(seconds: Seconds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Circuits go by `seconds`, which stand still unless they are moved; nothing is late."""
    monkeypatch.setattr(f"{CONNECTIONS}.Circuit", lambda: Circuit(seconds))
    monkeypatch.setattr(f"{CONNECTIONS}.LATE", inf)


async def opened(redis: Redis) -> Connections:
    """Connections to a Redis that has not answered, and is asked by the next command."""
    connections = Connections(redis, 0.01)
    with pytest.raises(TimeoutError):
        await connections.run(never)
    return Connections(redis, USUAL)


@pytest.mark.usefixtures("driven")
@pytest.mark.parametrize("unanswered", [never, failing(RedisTimeoutError())])
async def test_no_answer_in_time_opens_it_for_all_that_is_made_of_the_client(
    redis: Redis, unanswered: Callable[[Any], Awaitable[None]]
) -> None:
    connections, others = Connections(redis, 0.01), Connections(redis, USUAL)
    for _ in range(2):  # the second one asks, too
        with pytest.raises((asyncio.TimeoutError, RedisTimeoutError)):
            await connections.run(unanswered)
    with pytest.raises(RedisUnresponsiveError):
        await others.run(answered)


@pytest.mark.usefixtures("driven")
async def test_waiting_for_a_turn_of_this_process_is_no_silence_of_redis(redis: Redis) -> None:
    gate = asyncio.Event()

    async def slow(client: object) -> None:
        await gate.wait()

    patient, hasty = Connections(redis, 60), Connections(redis, 0.01)
    taking = [asyncio.create_task(patient.run(slow)) for _ in range(patient._here().limit.limit)]
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await hasty.run(answered)
    gate.set()
    await asyncio.gather(*taking)
    assert [await patient.run(answered) for _ in range(3)] == ["answer"] * 3


@pytest.mark.usefixtures("driven")
async def test_a_process_that_was_held_up_does_not_take_redis_for_unresponsive(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{CONNECTIONS}.LATE", 0)  # however soon it is noticed, it is late
    connections = Connections(redis, 0.01)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await connections.run(never)
    assert [await connections.run(answered) for _ in range(3)] == ["answer"] * 3


UNREACHED = [
    RedisConnectionError("late"),
    RedisClusterException("no node"),
    SlotNotCoveredError("one of them is gone"),
    ClusterDownError("the cluster is down"),
    OSError("late"),
]


@pytest.mark.usefixtures("driven")
@pytest.mark.parametrize("error", UNREACHED, ids=repr)
async def test_what_is_waited_for_in_vain_opens_it(
    redis: Redis, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{CONNECTIONS}.LONG_FAILURE", 0)
    connections = Connections(redis, USUAL)
    for _ in range(2):
        with pytest.raises(type(error)):
            await connections.run(failing(error))
    with pytest.raises(RedisUnresponsiveError):
        await connections.run(answered)


@pytest.mark.parametrize("error", [*UNREACHED, ValueError("of ours")], ids=repr)
async def test_what_fails_at_once_costs_nobody_a_wait_and_opens_nothing(
    redis: Redis, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{CONNECTIONS}.LONG_FAILURE", 60)
    connections = Connections(redis, USUAL)
    for _ in range(3):
        with pytest.raises(type(error)):
            await connections.run(failing(error))
    assert await connections.run(answered) == "answer"


@pytest.mark.usefixtures("driven")
@pytest.mark.parametrize(
    "reply", [ResponseError("NOREPLICAS"), ReadOnlyError("READONLY"), NoPermissionError("NOPERM")]
)
async def test_an_error_reply_is_an_answer(redis: Redis, reply: ResponseError) -> None:
    connections = await opened(redis)
    with pytest.raises(type(reply)):
        await connections.run(failing(reply))
    assert [await connections.run(answered) for _ in range(3)] == ["answer"] * 3


@pytest.mark.usefixtures("driven")
async def test_a_node_that_knows_of_no_whole_cluster_is_no_answer_of_it(redis: Redis) -> None:
    connections = await opened(redis)
    with pytest.raises(ClusterDownError):
        await connections.run(failing(ClusterDownError("the cluster is down")))
    with pytest.raises(RedisUnresponsiveError):
        await connections.run(answered)
