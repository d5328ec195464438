"""A Redis that does not answer is asked by one command at a time, and nobody else waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.redis import RedisRefreshLock, RedisRevocationStore, RedisSessionStore
from fastapi_oidc.session.redis.circuit import (
    PROBE_INTERVAL,
    PROBE_SECONDS,
    Circuit,
    RedisMuteError,
)
from fastapi_oidc.session.redis.connections import Connections
from tests.oidc.session.examples import User, a_session

USUAL, SHORT = 5.0, 0.2


class Seconds:
    """A clock that is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def circuit(seconds: Seconds) -> Circuit:
    return Circuit(seconds)


def test_closed_it_lets_every_command_take_its_time(circuit: Circuit) -> None:
    assert [circuit.patience(USUAL) for _ in range(3)] == [USUAL] * 3


def test_open_it_lets_one_command_ask_and_a_while_later_another(
    circuit: Circuit, seconds: Seconds
) -> None:
    circuit.open()
    for _ in range(3):
        assert circuit.patience(USUAL) == PROBE_SECONDS
        for waited in (0.0, PROBE_SECONDS, PROBE_INTERVAL - PROBE_SECONDS - 0.25):
            seconds.now += waited
            with pytest.raises(RedisMuteError):
                circuit.patience(USUAL)
        seconds.now += 0.25


def test_a_command_that_may_take_less_takes_no_more_to_ask(circuit: Circuit) -> None:
    circuit.open()
    assert circuit.patience(SHORT) == SHORT


def test_an_answer_closes_it(circuit: Circuit) -> None:
    circuit.open()
    circuit.patience(USUAL)
    circuit.close()
    assert [circuit.patience(USUAL) for _ in range(3)] == [USUAL] * 3


def test_a_late_failure_is_no_reason_to_ask_more_often(circuit: Circuit, seconds: Seconds) -> None:
    circuit.open()
    circuit.patience(USUAL)
    circuit.open()
    with pytest.raises(RedisMuteError):
        circuit.patience(USUAL)
    seconds.now += PROBE_INTERVAL
    assert circuit.patience(USUAL) == PROBE_SECONDS


def failing(error: Exception) -> Callable[[Any], Awaitable[None]]:
    async def command(client: object) -> None:
        raise error

    return command


async def never(client: object) -> None:
    await asyncio.Event().wait()


async def answered(client: object) -> str:
    return "answer"


@pytest.mark.parametrize("unanswered", [never, failing(RedisTimeoutError())])
async def test_no_answer_in_time_opens_it_for_all_that_is_made_of_the_client(
    redis: Redis, unanswered: Callable[[Any], Awaitable[None]]
) -> None:
    connections, others = Connections(redis, 0.01), Connections(redis, USUAL)
    for _ in range(2):  # the second one asks, too
        with pytest.raises((asyncio.TimeoutError, RedisTimeoutError)):
            await connections.run(unanswered)
    with pytest.raises(RedisMuteError):
        await others.run(answered)


@pytest.mark.parametrize("error", [RedisConnectionError("late"), OSError("late")])
async def test_a_connection_that_fails_late_opens_it(
    redis: Redis, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastapi_oidc.session.redis.connections.LONG_FAILURE", 0)
    connections = Connections(redis, USUAL)
    for _ in range(2):
        with pytest.raises(type(error)):
            await connections.run(failing(error))
    with pytest.raises(RedisMuteError):
        await connections.run(answered)


@pytest.mark.parametrize("error", [RedisConnectionError("refused"), ValueError("of ours")])
async def test_what_fails_at_once_costs_nobody_a_wait_and_opens_nothing(
    redis: Redis, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastapi_oidc.session.redis.connections.LONG_FAILURE", 60)
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


async def test_while_it_is_open_stores_and_lock_are_unavailable_at_once(redis: Redis) -> None:
    connections = Connections(redis, 0.01)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await connections.run(never)
    session, lock = a_session(), RedisRefreshLock(redis)
    for call, code in (
        (RedisSessionStore(redis, User).get("id"), Code.SESSION_STORE_UNAVAILABLE),
        (RedisRevocationStore(redis).ended_by(session), Code.SESSION_REVOCATION_UNAVAILABLE),
        (lock.kept("name"), Code.SESSION_LOCK_UNAVAILABLE),
    ):
        with pytest.raises(SessionError) as caught:
            await call
        assert (caught.value.code, caught.value.status) == (code, 503)
        assert isinstance(caught.value.__cause__, RedisMuteError)
