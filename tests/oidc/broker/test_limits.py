"""Bodies, answers, calls, concurrency and time have bounds."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from fastapi_oidc.broker import Limits
from tests.oidc.broker.apis import Api, Received, says
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import rigged
from tests.oidc.broker.streams import Stream, is_cut, streaming
from tests.oidc.flows.steps import until
from tests.oidc.interleaving import Gate


async def test_a_body_that_is_announced_too_large_is_not_read() -> None:
    async with rigged(limits=Limits(request_bytes=100_000)) as rig:
        assert await rig.guest.asks("/events", "Content-Length: 100001", method="POST") == "413"
        assert rig.api.connections == 0


async def test_a_body_in_chunks_ends_where_it_becomes_too_large() -> None:
    async def endless():  # type: ignore[no-untyped-def]
        while True:
            yield b"x" * 10_000

    async with rigged(limits=Limits(request_bytes=100_000)) as rig:
        async with rig.guest.client() as client:
            try:
                answer = await client.post("/events", content=endless())  # type: ignore[no-untyped-call]
                assert answer.status_code == 413
            except (httpx.WriteError, httpx.ReadError):
                pass  # the guest still wrote when it was refused
        assert not rig.api.received
        assert rig.trail[0].code == "broker.too_large"


async def test_an_answer_that_becomes_too_large_breaks_off() -> None:
    async with rigged(api=Api(says(b"x" * 200_000)), limits=Limits(answer_bytes=100_000)) as rig:
        with pytest.raises(httpx.RemoteProtocolError):
            await rig.guest.get()
        assert rig.trail[0].code == "broker.too_large"
        assert rig.trail[0].received <= 200_000


async def test_calls_are_counted_across_processes_and_end() -> None:
    async with rigged(limits=Limits(calls=3)) as rig:
        statuses = [(await rig.guest.get()).status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert (await rig.current()).use.calls >= 3


async def test_calls_at_one_time_have_a_bound() -> None:
    gate = Gate()

    async def held(request: Received, writer: asyncio.StreamWriter) -> None:
        await gate.passed()
        await says()(request, writer)

    async with rigged(api=Api(held), limits=Limits(concurrent=1)) as rig:
        first = asyncio.create_task(rig.guest.get())
        await gate.until_reached()
        refused = await rig.guest.get()
        assert (refused.status_code, refused.text[:11]) == (429, "broker.busy")
        gate.opened.set()
        assert (await first).status_code == 200
        assert (await rig.guest.get()).status_code == 200


async def test_a_call_that_takes_too_long_is_refused_or_cut() -> None:
    async def silent(request: Received, _: asyncio.StreamWriter) -> None:
        await request.after.read()

    async with rigged(api=Api(silent), limits=Limits(seconds=0.2)) as rig:
        answer = await rig.guest.get()
        assert (answer.status_code, answer.text[:15]) == (504, "broker.timeout:")
        rig.api.answer = Stream()
        async with streaming(rig.guest) as parts:
            assert await is_cut(parts)


async def test_a_guest_that_does_not_read_holds_nothing_for_ever() -> None:
    async with rigged(api=Api(says(b"x" * 5_000_000)), limits=Limits(seconds=0.3)) as rig:
        reader, writer = await asyncio.open_unix_connection(rig.guest.path, limit=1000)
        writer.write(f"GET /events HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
        await until(lambda: bool(rig.trail))
        assert rig.trail[0].code == "broker.timeout"
        writer.close()
        del reader


async def test_what_calls_cost_is_in_the_access() -> None:
    async with rigged(api=Api(says(b"12345"))) as rig:
        await rig.guest.call("POST", content=b"123")
        await rig.guest.get()
        use = (await rig.current()).use
        assert use == (2, 3, 10, int(rig.world.time.now))
        [given] = await rig.broker.given(rig.session)
        assert given.use == use
