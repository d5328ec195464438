"""What counts as a Redis that does not answer."""

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

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.redis.store import (
    DEFAULT_CONNECTIONS,
    PROBE_PAUSE,
    Circuit,
    RedisUnresponsiveError,
)

USUAL = 5.0
STORE = "fastapi_oidc.session.redis.store"


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
    monkeypatch.setattr(f"{STORE}.Circuit", lambda: Circuit(seconds))
    monkeypatch.setattr(f"{STORE}.LATE", inf)


async def ask(store: RedisStore, command: Callable[[Any], Awaitable[Any]]) -> Any:
    """The reply, or the error of Redis."""
    try:
        return await store._run(command, "ask")
    except SessionError as error:
        raise (error.__cause__ or error) from None


async def assert_closed(store: RedisStore) -> None:
    assert [await ask(store, answered) for _ in range(3)] == ["answer"] * 3


async def assert_open(store: RedisStore) -> None:
    with pytest.raises(RedisUnresponsiveError):
        await ask(store, answered)


async def opened(redis: Redis) -> RedisStore:
    """A store on a Redis that has not answered, and is asked by the next command."""
    store = RedisStore(redis, timeout=0.01)
    with pytest.raises(TimeoutError):
        await ask(store, never)
    store._timeout = USUAL
    return store


@pytest.mark.usefixtures("driven")
@pytest.mark.parametrize("unanswered", [never, failing(RedisTimeoutError())])
async def test_no_answer_in_time_opens_it(
    redis: Redis, unanswered: Callable[[Any], Awaitable[None]]
) -> None:
    store = RedisStore(redis, timeout=0.01)
    for _ in range(2):  # the second one asks, too
        with pytest.raises((asyncio.TimeoutError, RedisTimeoutError)):
            await ask(store, unanswered)
    await assert_open(store)


@pytest.mark.usefixtures("driven")
async def test_waiting_for_a_turn_of_this_process_is_no_silence_of_redis(redis: Redis) -> None:
    store = RedisStore(Redis(connection_pool=redis.connection_pool), timeout=0.01)
    slots = store._reached.here().slots
    taken = [await slots.acquire() for _ in range(DEFAULT_CONNECTIONS)]
    with pytest.raises(TimeoutError):
        await ask(store, answered)
    for _ in taken:
        slots.release()
    store._timeout = USUAL
    await assert_closed(store)


@pytest.mark.usefixtures("driven")
async def test_a_process_that_was_held_up_does_not_take_redis_for_unresponsive(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{STORE}.LATE", 0)  # however soon it is noticed, it is late
    store = RedisStore(redis, timeout=0.01)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await ask(store, never)
    store._timeout = USUAL
    await assert_closed(store)


UNREACHED = [
    RedisConnectionError("late"),
    RedisClusterException("no node"),
    SlotNotCoveredError("one of them is gone"),
    ClusterDownError("the cluster is down"),
    OSError("late"),
]


@pytest.mark.usefixtures("driven")
@pytest.mark.parametrize("error", [*UNREACHED, ValueError("of ours")], ids=repr)
@pytest.mark.parametrize(
    ("long", "is_opened"), [(0, True), (60, False)], ids=["after a wait", "at once"]
)
async def test_what_is_waited_for_in_vain_opens_it_and_what_fails_at_once_does_not(
    redis: Redis, error: Exception, long: int, is_opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{STORE}.LONG_FAILURE", long)
    store = RedisStore(redis, timeout=USUAL)
    for _ in range(2):
        with pytest.raises(type(error)):
            await ask(store, failing(error))
    await (assert_open if is_opened and error in UNREACHED else assert_closed)(store)


@pytest.mark.usefixtures("driven")
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
    store = await opened(redis)
    with pytest.raises(type(reply)):
        await ask(store, failing(reply))
    await (assert_closed if is_answer else assert_open)(store)


LIMIT, SHORT = 5.0, 0.2


class Seconds:
    """A clock that is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def circuit(seconds: Seconds) -> Circuit:
    return Circuit(seconds)


def asks(circuit: Circuit, usual: float = LIMIT) -> float:
    """How long a command may take that has no answer."""
    with circuit.probe(usual) as limit:
        circuit.open()
    return limit


def test_open_it_lets_one_command_ask_and_later_another(circuit: Circuit, seconds: Seconds) -> None:
    circuit.open()
    for _ in range(3):
        with circuit.probe(LIMIT) as limit:
            for waited in (0.0, limit):
                seconds.now += waited
                with pytest.raises(RedisUnresponsiveError):
                    asks(circuit)
        for waited in (0.0, PROBE_PAUSE - 0.25):
            seconds.now += waited
            with pytest.raises(RedisUnresponsiveError):
                asks(circuit)
        seconds.now += 0.25


def test_each_that_asks_may_take_twice_as_long_and_no_longer_than_it_may_anyway(
    circuit: Circuit, seconds: Seconds
) -> None:
    limits = []
    circuit.open()
    for _ in range(5):
        limits.append(asks(circuit))
        seconds.now += PROBE_PAUSE
    assert limits == [1.0, 2.0, 4.0, LIMIT, LIMIT]


def test_a_command_that_may_take_less_takes_no_more_to_ask(circuit: Circuit) -> None:
    circuit.open()
    assert asks(circuit, SHORT) == SHORT


def test_whoever_goes_away_while_it_asks_leaves_it_to_another(
    circuit: Circuit, seconds: Seconds
) -> None:
    circuit.open()
    with pytest.raises(asyncio.CancelledError), circuit.probe(LIMIT):
        raise asyncio.CancelledError
    seconds.now += PROBE_PAUSE
    asks(circuit)


def test_a_late_failure_is_no_reason_to_ask_more_often(circuit: Circuit, seconds: Seconds) -> None:
    circuit.open()
    asks(circuit)
    circuit.open()
    with pytest.raises(RedisUnresponsiveError):
        asks(circuit)
    seconds.now += PROBE_PAUSE
    asks(circuit)


@pytest.mark.usefixtures("driven")
async def test_a_redis_that_replies_to_others_is_not_unresponsive(redis: Redis) -> None:
    """A process with hardly any processor time is slow to read what has arrived."""
    store = RedisStore(redis, timeout=0.05)

    async def outlived(client: object) -> None:
        await ask(store, answered)
        await never(client)

    with pytest.raises(TimeoutError):
        await ask(store, outlived)
    assert not store._reached.here().circuit.is_open
