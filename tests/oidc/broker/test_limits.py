"""Bodies, answers, calls, concurrency and time have bounds."""

import asyncio
from typing import Any

import httpx
import pytest

from fastapi_oidc.broker import Limits, guest
from tests.oidc.broker.apis import Answer, Api, Received, says
from tests.oidc.broker.guests import GET
from tests.oidc.broker.rig import rigged, store_of
from tests.oidc.broker.streams import Stream, silent, streaming
from tests.oidc.flows.steps import until


async def test_a_body_that_is_too_large_is_not_read_and_one_in_chunks_ends_there() -> None:
    async def endless():  # type: ignore[no-untyped-def]
        while True:
            yield b"x" * 10_000

    async with rigged(limits=Limits(request_bytes=100_000)) as rig:
        assert await rig.guest.asks("/events", "Content-Length: 100001", method="POST") == "413"
        assert rig.api.connections == 0
        async with rig.guest.client() as client:
            try:
                answer = await client.post("/events", content=endless())  # type: ignore[no-untyped-call]
                assert answer.status_code == 413
            except (httpx.WriteError, httpx.ReadError):
                pass  # the guest still wrote when it was refused
        assert not rig.api.received
        assert [each.code for each in rig.trail] == ["broker.too_large"] * 2


async def short(request: Received, writer: asyncio.StreamWriter) -> None:
    await says(b"short", length=100)(request, writer)
    writer.close()


BROKEN = {"broker.too_large": says(b"x" * 200_000), "broker.unreachable": short}


@pytest.mark.parametrize(("code", "answer"), BROKEN.items(), ids=BROKEN)
async def test_an_answer_that_is_too_large_or_too_short_breaks_off(
    code: str, answer: Answer
) -> None:
    async with rigged(api=Api(answer), limits=Limits(answer_bytes=100_000)) as rig:
        with pytest.raises(httpx.RemoteProtocolError):
            await rig.guest.get()
        assert (rig.trail[0].code, rig.trail[0].status) == (code, 200)


async def test_what_calls_cost_is_in_the_access_and_ends_them() -> None:
    async with rigged(api=Api(says(b"12345")), limits=Limits(calls=4)) as rig:
        await rig.guest.call("POST", content=b"123")
        await rig.guest.get("/secrets")
        assert await rig.use() == (2, 3, 5)
        statuses = [(await rig.guest.get()).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]


async def test_costs_that_are_stored_while_a_call_reads_what_is_stored_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guest, "POLL_SECONDS", 1000)
    async with rigged(limits=Limits(calls=1)) as rig:
        await rig.guest.get()
        store, read = store_of(rig), store_of(rig).read

        async def late(keys: Any) -> Any:
            found, store.read = await read(keys), read
            assert (await rig.use()).calls == 1
            return found

        store.read = late
        assert (await rig.guest.get()).status_code == 429


async def test_a_guest_that_leaves_ends_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "POLL_SECONDS", 0.01)
    stream = Stream()
    async with rigged(api=Api(stream)) as rig:
        async with streaming(rig.guest):
            pass
        await stream.until_ended()
        rig.api.answer = silent
        waits = asyncio.create_task(rig.guest.call("POST", content=b"lunch"))
        await until(lambda: len(rig.api.received) == 2)
        waits.cancel()
        for behind in (GET, b"POST" + GET[3:-2] + b"Content-Length: 9\r\n\r\nab"):
            _, writer = await asyncio.open_unix_connection(rig.guest.path)
            rig.api.received.clear()
            writer.write(GET)
            await until(lambda: bool(rig.api.received))
            writer.write(behind)  # after which the server reads no more
            writer.transport.abort()
        await until(lambda: len(rig.trail) == 4)
        told = [(line.code, line.status, line.received) for line in rig.trail]
        assert told == [("broker.request", 200, 5), *[("broker.request", 400, 0)] * 3]
