"""One exchange with the OP over a transport in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.provider.http import HTTPClient
from fastapi_oidc.provider.network import Connections
from tests.oidc.protocol.examples import refused

URL = "https://op.test/path"
Handler = Callable[[httpx.Request], httpx.Response]


def client_for(handler: Handler, *, max_answer_bytes: int = 1000) -> HTTPClient:
    connections = Connections(transport=httpx.MockTransport(handler))
    return HTTPClient(connections, max_answer_bytes=max_answer_bytes)


def answering(response: httpx.Response) -> Handler:
    return lambda request: response


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused_and_not_followed(status: int) -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return httpx.Response(status, headers={"Location": "https://evil.test/"})

    with refused(Code.PROVIDER_REDIRECTED, ProviderError):
        await client_for(handler).request("POST", URL, form={})
    assert seen == [URL]


async def test_an_answer_of_exactly_the_limit_is_read() -> None:
    response = httpx.Response(200, content=b"x" * 1000)
    answer = await client_for(answering(response)).get(URL, accept="*/*")
    assert len(answer.body) == 1000


async def test_one_byte_over_the_limit_is_refused() -> None:
    response = httpx.Response(200, content=b"x" * 1001)
    with refused(Code.PROVIDER_ANSWER_TOO_LARGE, ProviderError):
        await client_for(answering(response)).get(URL, accept="*/*")


async def test_reading_stops_at_the_limit() -> None:
    chunks_sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal chunks_sent
        for _ in range(1000):
            chunks_sent += 1
            yield b"x" * 100

    with refused(Code.PROVIDER_ANSWER_TOO_LARGE, ProviderError):
        await client_for(lambda request: httpx.Response(200, content=endless())).get(
            URL, accept="*/*"
        )
    assert chunks_sent == 11


async def test_a_compressed_answer_is_refused_before_it_unfolds() -> None:
    async def never_read() -> AsyncIterator[bytes]:
        pytest.fail("the body was read")
        yield b""

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=never_read())

    with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
        await client_for(handler).get(URL, accept="*/*")


async def test_a_cookie_of_the_provider_is_not_kept() -> None:
    cookies: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        cookies.append(request.headers.get("Cookie"))
        return httpx.Response(200, headers={"Set-Cookie": "user=alice; Path=/"})

    client = client_for(handler)
    await client.get(URL, accept="*/*")
    await client.get(URL, accept="*/*")
    assert cookies == [None, None]


async def test_an_error_names_the_endpoint_without_query_or_credentials() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("reset")

    with pytest.raises(ProviderError) as caught:
        await client_for(handler).request(
            "POST", f"{URL}?a=secret-1", form={"code": "secret-2"}, headers={"A": "secret-3"}
        )
    assert caught.value.details == {"url": URL}
    assert "secret" not in str(caught.value)
