"""What counts as a Redis that does not answer, for all that is made of one client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
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

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.redis.circuit import PROBE_PAUSE, Circuit, RedisUnresponsiveError
from fastapi_oidc.session.redis.connections import Connections
from tests.oidc.session.test_redis_circuit import Seconds
from tests.oidc.session.values import KEY, calls_of

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


async def test_a_command_whose_caller_goes_away_opens_nothing(redis: Redis) -> None:
    connections = Connections(redis, USUAL)
    waiting = asyncio.create_task(connections.run(never))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert [await connections.run(answered) for _ in range(3)] == ["answer"] * 3


@pytest.mark.usefixtures("driven")
async def test_a_redis_that_takes_longer_than_a_second_to_reach_is_found_again(
    redis: Redis, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over slow TLS, or behind sentinels and nodes that do not respond."""
    connections = await opened(redis)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", seconds)

    async def slow(client: object) -> str:
        seconds.now += 3
        for _ in range(3):
            await asyncio.sleep(0)  # what is to end by now does
        return "answer"

    for _ in range(2):
        with pytest.raises(TimeoutError):
            await connections.run(slow)
        seconds.now += PROBE_PAUSE
    for _ in range(2):
        assert await connections.run(slow) == "answer"


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


@pytest.mark.usefixtures("driven")
async def test_a_cluster_that_does_not_respond_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its nodes take connections and commands, and answer none."""
    monkeypatch.setattr(f"{CONNECTIONS}.LONG_FAILURE", 0.05)
    with ExitStack() as stack:
        nodes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        hosts = ",".join(f"127.0.0.1:{node.getsockname()[1]}" for node in nodes)
        url = f"redis+cluster://{hosts}?socket_timeout=0.05"
        store = RedisStore(url)
        causes = []
        for _ in range(3):
            with pytest.raises(SessionError) as caught:
                await store.read([KEY])
            causes.append(type(caught.value.__cause__))
        await store.aclose()
    assert (causes[0], causes[-1]) == (RedisClusterException, RedisUnresponsiveError)


@pytest.mark.usefixtures("driven")
async def test_while_it_is_open_a_store_is_unavailable_at_once(redis: Redis) -> None:
    connections = Connections(redis, 0.01)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await connections.run(never)
    for call in calls_of(RedisStore(redis)):
        with pytest.raises(SessionError) as caught:
            await call
        assert (caught.value.code, caught.value.status) == (Code.SESSION_STORE_UNAVAILABLE, 503)
        assert isinstance(caught.value.__cause__, RedisUnresponsiveError)
