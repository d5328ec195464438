"""One command at a time asks a Redis that does not answer, and nobody else waits."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc.session.redis.circuit import (
    PROBE_PAUSE,
    Circuit,
    RedisUnresponsiveError,
)

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


def asks(circuit: Circuit, usual: float = USUAL) -> float:
    """How long a command may take that has no answer."""
    with circuit.probe(usual) as limit:
        circuit.open()
    return limit


def test_it_is_opened_and_closed(circuit: Circuit) -> None:
    assert not circuit.is_open
    circuit.open()
    assert circuit.is_open
    circuit.close()
    assert not circuit.is_open


def test_open_it_lets_one_command_ask_and_a_while_later_another(
    circuit: Circuit, seconds: Seconds
) -> None:
    circuit.open()
    for _ in range(3):
        with circuit.probe(USUAL) as limit:
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
    assert limits == [1.0, 2.0, 4.0, USUAL, USUAL]


def test_a_command_that_may_take_less_takes_no_more_to_ask(circuit: Circuit) -> None:
    circuit.open()
    assert asks(circuit, SHORT) == SHORT


def test_whoever_goes_away_while_it_asks_leaves_it_to_another(
    circuit: Circuit, seconds: Seconds
) -> None:
    circuit.open()
    with pytest.raises(asyncio.CancelledError), circuit.probe(USUAL):
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
