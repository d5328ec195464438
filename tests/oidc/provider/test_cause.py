"""Every failure of the network says what somebody can put right."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.provider.http import HTTPClient, cause_of
from tests.oidc.provider.sockets import Script, listening


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            caused(httpx.ConnectError("x"), socket.gaierror(-2, "Name or service not known")),
            "the host name is not found: Name or service not known",
        ),
        (
            caused(httpx.ConnectError("x"), ExceptionGroup("all", [ConnectionRefusedError()])),
            "the connection was refused",
        ),
        (caused(httpx.ReadError("x"), ConnectionResetError()), "the connection was reset"),
        (httpx.ConnectTimeout("x"), "no connection in time"),
        (httpx.PoolTimeout("x"), "no free connection in time"),
        (httpx.ProxyError("407\r\nX"), r"the proxy failed: 407\r\nX"),
        (httpx.InvalidURL("x"), "the URL cannot be requested"),
        (httpx.WriteError("x"), "WriteError"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_cause_is_named(error: Exception, words: str) -> None:
    assert cause_of(error) == words


def test_errors_that_cause_each_other_end() -> None:
    one, other = httpx.ReadError("x"), ValueError()
    one.__cause__, other.__cause__ = other, one
    assert cause_of(one) == "ReadError"


async def explanation_of(url: str) -> str:
    http = HTTPClient(timeout=5)
    with pytest.raises(ProviderError) as caught:
        await http.get(url, accept="*/*")
    await http.aclose()
    assert caught.value.code is Code.PROVIDER_UNREACHABLE
    assert caught.value.details["url"] == url.partition("?")[0]
    return caught.value.explanation


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    pass


async def speaks_no_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail\r\n")
    await writer.drain()


async def test_nobody_listening_refuses_the_connection() -> None:
    async with listening(hangs_up) as server:
        url = server.url
    assert await explanation_of(url) == "the connection was refused"


async def ends_too_early(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
    await writer.drain()


@pytest.mark.parametrize("script", [hangs_up, speaks_no_http, ends_too_early])
async def test_a_broken_answer_is_told_as_such(script: Script) -> None:
    async with listening(script) as server:
        explanation = await explanation_of(server.url)
    assert explanation.startswith("no complete HTTP response: ")
    assert server.connections == 2


async def test_a_server_without_tls_is_told_as_such() -> None:
    async def greets_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.test ready\r\n" * 10)
        writer.close()

    listener = await asyncio.start_server(greets_at_once, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        assert (await explanation_of(f"https://127.0.0.1:{port}/")).startswith("TLS failed: ")


async def test_a_url_that_cannot_be_asked_is_an_error_of_the_provider() -> None:
    assert await explanation_of("https://999.1.1.1/?x=1") == "the URL cannot be requested"
