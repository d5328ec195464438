"""One exchange with the OP over real sockets: slow, broken and oversize answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.provider.http import HTTPClient
from tests.oidc.provider.sockets import Script, listening, whole


@asynccontextmanager
async def client(*, timeout: float = 5.0) -> AsyncIterator[HTTPClient]:  # noqa: ASYNC109
    opened = HTTPClient(timeout=timeout, max_answer_bytes=100_000)
    try:
        yield opened
    finally:
        await opened.aclose()


def writes(content: bytes) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()

    return script


async def drips_for_ever(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def says_nothing(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    pass


async def test_a_whole_answer_is_read() -> None:
    script = writes(whole(b"{}", "Content-Type: application/json"))
    async with listening(script) as server, client() as http:
        answer = await http.get(server.url, accept="application/json")
    assert answer.document() == {}


@pytest.mark.parametrize("script", [drips_for_ever, says_nothing])
async def test_the_limit_is_over_the_whole_exchange(script: Script) -> None:
    async with listening(script) as server, client(timeout=0.2) as http:
        began = time.monotonic()
        with pytest.raises(ProviderError) as caught:
            await http.get(server.url, accept="*/*")
        assert time.monotonic() - began < 5
    assert caught.value.code == Code.PROVIDER_TIMEOUT
    assert server.connections == 1


async def test_the_second_attempt_of_a_get_does_not_get_time_of_its_own() -> None:
    async with listening(hangs_up, says_nothing) as server, client(timeout=0.2) as http:
        began = time.monotonic()
        with pytest.raises(ProviderError) as caught:
            await http.get(server.url, accept="*/*")
        assert time.monotonic() - began < 5
    assert caught.value.code == Code.PROVIDER_TIMEOUT
    assert server.connections == 2


async def test_a_get_survives_one_hang_up() -> None:
    async with listening(hangs_up, writes(whole(b"ok"))) as server, client() as http:
        answer = await http.get(server.url, accept="*/*")
    assert (answer.body, server.connections) == (b"ok", 2)


async def test_a_post_is_sent_once_only() -> None:
    async with listening(hangs_up, writes(whole(b"ok"))) as server, client() as http:
        with pytest.raises(ProviderError) as caught:
            await http.post(server.url, {"code": "c"}, {})
    assert caught.value.code == Code.PROVIDER_UNREACHABLE
    assert server.connections == 1


@pytest.mark.parametrize(
    "content",
    [b"not http\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"],
    ids=["no HTTP", "cut short"],
)
async def test_a_broken_answer_is_unreachable(content: bytes) -> None:
    async with listening(writes(content)) as server, client() as http:
        with pytest.raises(ProviderError) as caught:
            await http.get(server.url, accept="*/*")
    assert caught.value.code == Code.PROVIDER_UNREACHABLE


async def test_an_endless_answer_is_cut_at_the_limit() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
            await writer.drain()

    async with listening(endless) as server, client() as http:
        with pytest.raises(ProviderError) as caught:
            await http.get(server.url, accept="*/*")
    assert caught.value.code == Code.PROVIDER_ANSWER_TOO_LARGE


async def test_a_redirect_over_a_real_socket_is_refused() -> None:
    redirect = whole(b"", "Location: /elsewhere", status="302 Found")
    async with listening(writes(redirect)) as server, client() as http:
        with pytest.raises(ProviderError) as caught:
            await http.get(server.url, accept="*/*")
    assert caught.value.code == Code.PROVIDER_REDIRECTED
    assert server.connections == 1


async def test_nobody_listening_is_unreachable() -> None:
    async with listening(hangs_up) as server:
        url = server.url
    async with client() as http:
        with pytest.raises(ProviderError) as caught:
            await http.get(url, accept="*/*")
    assert caught.value.code == Code.PROVIDER_UNREACHABLE


async def test_cancelling_the_caller_ends_the_exchange() -> None:
    async with listening(says_nothing) as server, client() as http:
        call = asyncio.create_task(http.get(server.url, accept="*/*"))
        await server.reached.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_closed_client_opens_new_connections() -> None:
    async with listening(writes(whole(b"ok"))) as server, client() as http:
        await http.get(server.url, accept="*/*")
        await http.aclose()
        assert (await http.get(server.url, accept="*/*")).body == b"ok"


def test_a_client_outlives_its_event_loop() -> None:
    http = HTTPClient()

    async def exchange() -> bytes:
        script = writes(whole(b"ok", "Connection: close"))
        async with listening(script) as server:
            return (await http.get(server.url, accept="*/*")).body

    assert [asyncio.run(exchange()), asyncio.run(exchange())] == [b"ok", b"ok"]


async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    script = writes(whole(b"by proxy", "Connection: close"))
    async with listening(script) as proxy, client() as http:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        answer = await http.get("http://op.test/keys", accept="*/*")
    assert answer.body == b"by proxy"
    assert proxy.requests[0].startswith("GET http://op.test/keys HTTP/1.1")
