"""What the page about deployment says of the way to the provider."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fastapi_oidc import ProviderError
from fastapi_oidc.provider.http import HTTPClient
from tests.oidc.provider.certificates import Authority, listening_with_tls
from tests.oidc.provider.sockets import listening, whole


async def refuse(writer: asyncio.StreamWriter) -> None:
    writer.write(whole(b"", status="403 Forbidden"))


async def answer(writer: asyncio.StreamWriter) -> None:
    writer.write(whole(b"{}", "Connection: close"))
    await writer.drain()


@pytest.fixture(autouse=True)
def _no_environment_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
async def client() -> AsyncIterator[HTTPClient]:
    client = HTTPClient()
    yield client
    await client.aclose()


async def test_the_provider_is_asked_through_the_proxy_of_the_environment(
    client: HTTPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(refuse) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(ProviderError):
            await client.get("https://login.example.com/", accept="application/json")
    assert proxy.requests[0].startswith("CONNECT login.example.com:443 ")


async def test_a_host_that_needs_no_proxy_is_asked_directly(
    client: HTTPClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(refuse) as proxy, listening(answer) as provider:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert (await client.get(provider.url, accept="application/json")).status == 200
    assert proxy.requests == []


async def test_an_authority_of_the_environment_is_believed(
    client: HTTPClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with listening_with_tls(answer, authority.issue("server")) as provider:
        assert (await client.get(provider.url, accept="application/json")).status == 200


async def test_an_authority_that_nobody_named_is_not(client: HTTPClient, tmp_path: Path) -> None:
    async with listening_with_tls(answer, Authority(tmp_path).issue("server")) as provider:
        with pytest.raises(ProviderError):
            await client.get(provider.url, accept="application/json")
