"""Own authorities, client certificates, proxies: how one provider is reached."""

import asyncio
import ssl
from pathlib import Path

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProviderError
from fastapi_oidc.provider.http import HTTPClient
from fastapi_oidc.provider.network import HTTPOptions, Network
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.certificates import Authority, listening_with_tls
from tests.oidc.provider.sockets import listening, whole


async def answers(writer: asyncio.StreamWriter) -> None:
    writer.write(whole(b"ok", "Connection: close"))
    await writer.drain()


async def body_of(url: str, options: HTTPOptions) -> bytes:
    network = Network()
    try:
        return (await HTTPClient(network, options, timeout=5).request("GET", url)).body
    finally:
        await network.aclose()


async def failure_of(url: str, options: HTTPOptions) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await body_of(url, options)
    return caught.value


async def test_an_own_authority_is_trusted_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    async with listening_with_tls(answers, ours.issue("server")) as server:
        assert await body_of(server.url, HTTPOptions(ca_file=ours.file)) == b"ok"
        context = ssl.create_default_context(cafile=ours.file)
        assert await body_of(server.url, HTTPOptions(ssl_context=context)) == b"ok"
        for options in (HTTPOptions(), HTTPOptions(ca_file=other.file)):
            error = await failure_of(server.url, options)
            assert error.code is Code.PROVIDER_UNREACHABLE
            assert error.explanation.startswith("the certificate is not trusted: ")
        monkeypatch.setenv("SSL_CERT_FILE", str(ours.file))
        assert await body_of(server.url, HTTPOptions()) == b"ok"


async def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server_file, client_file = authority.issue("server"), authority.issue("client")
    with_certificate = HTTPOptions(ca_file=authority.file, client_certificate_file=client_file)
    async with listening_with_tls(answers, server_file, clients_of=authority.file) as server:
        assert await body_of(server.url, with_certificate) == b"ok"
        error = await failure_of(server.url, HTTPOptions(ca_file=authority.file))
        assert error.code is Code.PROVIDER_UNREACHABLE


async def test_the_proxy_of_the_options_is_used_and_that_of_the_host_ignored_on_demand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with listening(answers) as proxy, listening(answers) as server:
        await body_of("http://op.test/keys", HTTPOptions(proxy=proxy.url))
        assert proxy.requests[0].startswith("GET http://op.test/keys HTTP/1.1")
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        await body_of(server.url, HTTPOptions(trust_env=False))
        assert (proxy.connections, server.connections) == (1, 1)
        await body_of("http://op.test/keys", HTTPOptions())
        assert (proxy.connections, server.connections) == (2, 1)


@pytest.mark.parametrize("name", ["ca_file", "client_certificate_file"])
@pytest.mark.parametrize("content", [None, "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_that_cannot_be_used_is_a_fault_of_the_configuration(
    tmp_path: Path, name: str, content: str | None
) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_text(content)
    options = HTTPOptions(ca_file=file) if name == "ca_file" else None
    with refused(Code.CONFIGURATION_KEY_UNUSABLE, ConfigurationError):
        Network().prepare(options or HTTPOptions(client_certificate_file=file))


@pytest.mark.parametrize("proxy", ["", "proxy:3128", "ftp://proxy"])
def test_a_proxy_that_is_none_is_a_fault_of_the_configuration(proxy: str) -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        HTTPOptions(proxy=proxy)


async def test_a_proxy_of_the_host_that_is_none_is_an_error_of_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "ftp://proxy")
    error = await failure_of("http://op.test/keys", HTTPOptions())
    assert error.explanation.startswith("the proxy cannot be used: ")


def test_no_secret_of_the_options_shows() -> None:
    options = HTTPOptions(client_certificate_password="s3cret", proxy="http://u:s3cret@proxy")
    assert "s3cret" not in repr(options)


@pytest.mark.parametrize("name", ["ca_file", "client_certificate_file"])
def test_a_key_written_in_place_of_its_file_is_not_told(name: str) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0B\n"
    options = HTTPOptions(**{name: key})  # type: ignore[arg-type]  # both take a file
    with pytest.raises(ConfigurationError) as caught:
        options.verification()
    assert "MIIE" not in str(caught.value)
    assert "BEGIN" not in caught.value.message
