"""One exchange with the OP over real sockets: slow, broken and oversize answers."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

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


async def test_the_second_attempt_of_a_get_does_not_get_time_of_its_own() -> None:
    async with listening(hangs_up, says_nothing) as server, client(timeout=1.0) as http:
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


class KeepsConnections(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_client_outlives_its_event_loop() -> None:
    http = HTTPClient()
    server = ThreadingHTTPServer(("127.0.0.1", 0), KeepsConnections)
    Thread(target=server.serve_forever).start()
    url = f"http://127.0.0.1:{server.server_port}/"

    async def last_exchange() -> bytes:
        answer = await http.get(url, accept="*/*")
        await http.aclose()
        return answer.body

    try:
        assert asyncio.run(http.get(url, accept="*/*")).body == b"ok"
        # The pool still has a connection, which belongs to the loop that is gone.
        assert asyncio.run(last_exchange()) == b"ok"
    finally:
        server.shutdown()
        server.server_close()
    gc.collect()
