"""Whose time a login takes: each part's own, without that of the parts within."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tools.benchmarks.layers import Layers, TellsItsTime, exchanges_in


def a_clock(*moments: float) -> Iterator[float]:
    yield from moments


def layers_at(*moments: float) -> Layers:
    """Reads these moments, one after the other."""
    return Layers(a_clock(*moments).__next__)


def test_what_is_within_a_part_is_not_its_own() -> None:
    layers = layers_at(0, 1, 4, 9, 16)
    with layers.within("application"), layers.within("exchange"):
        pass
    assert layers.seconds == {"application": 3 + 7, "exchange": 5}
    assert layers.entered == {"application": 1, "exchange": 1}


def test_time_outside_of_every_part_is_nobodys() -> None:
    layers = layers_at(0, 1, 2, 10, 13)
    for _ in range(2):
        with layers.within("part"):
            pass
    assert layers.seconds == {"part": 1 + 3}
    assert layers.entered == {"part": 2}


def test_time_that_ran_elsewhere_is_taken_from_the_part_that_waited() -> None:
    layers = layers_at(0, 0, 8, 10)
    with layers.within("exchange"):
        layers.moved("provider", 5)
    assert layers.seconds == {"exchange": 5, "provider": 5}


async def answered(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("hello")(scope, receive, send)


async def test_what_a_client_sends_is_an_exchange_unless_it_is_the_browser() -> None:
    layers, transport = Layers(), httpx.ASGITransport(TellsItsTime(answered))
    async with (
        httpx.AsyncClient(transport=transport, base_url="https://op.test") as client,
        httpx.AsyncClient(transport=transport, base_url="https://op.test") as browser,
    ):
        with exchanges_in(layers, "exchange", "provider", besides=[browser]):
            await client.get("/")
            await browser.get("/")
        await client.get("/")
    assert layers.entered == {"exchange": 1}
    assert layers.seconds["provider"] > 0
