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


@pytest.mark.parametrize("script", [drips_for_ever, says_nothing])
async def test_the_limit_is_over_the_whole_exchange(script: Script) -> None:
    async with listening(script) as server, client(timeout=0.5) as http:
        began = time.monotonic()
        with pytest.raises(ProviderError) as caught:
            await http.get(server.url, accept="*/*")
        assert time.monotonic() - began < 5
    assert caught.value.code == Code.PROVIDER_TIMEOUT


async def test_a_get_survives_one_hang_up() -> None:
    async with listening(hangs_up, writes(whole(b"ok"))) as server, client() as http:
        answer = await http.get(server.url, accept="*/*")
    assert (answer.body, server.connections) == (b"ok", 2)


async def test_a_post_is_sent_once_only() -> None:
    async with listening(hangs_up, writes(whole(b"ok"))) as server, client() as http:
        with pytest.raises(ProviderError) as caught:
            await http.request("POST", server.url, form={"code": "c"})
    assert caught.value.code == Code.PROVIDER_UNREACHABLE
    assert server.connections == 1
