"""What the page about deployment says of the way to the provider."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fastapi_oidc import ProviderError
from fastapi_oidc.provider.http import HTTPClient
from tests.oidc.provider.sockets import Server, listening, whole

ADDRESS = "127.0.0.1"


async def refuse(writer: asyncio.StreamWriter) -> None:
    writer.write(whole(b"", status="403 Forbidden"))


async def answer(writer: asyncio.StreamWriter) -> None:
    writer.write(whole(b"{}", "Content-Type: application/json"))


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
        monkeypatch.setenv("NO_PROXY", ADDRESS)
        assert (await client.get(provider.url, accept="application/json")).status == 200
    assert proxy.requests == []


async def test_a_certificate_authority_of_ones_own_is_believed(
    client: HTTPClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = made_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with listening_with_tls(certificate) as url:
        assert (await client.get(url, accept="application/json")).status == 200


async def test_a_certificate_of_nobody_is_refused(client: HTTPClient, tmp_path: Path) -> None:
    async with listening_with_tls(made_certificate(tmp_path)) as url:
        with pytest.raises(ProviderError):
            await client.get(url, accept="application/json")


def made_certificate(folder: Path) -> Path:
    """A certificate that signs itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, ADDRESS)])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address(ADDRESS))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "certificate.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@asynccontextmanager
async def listening_with_tls(certificate: Path) -> AsyncIterator[str]:
    """The https address of a server with this certificate, until the block ends."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    connection = Server(answer).serve_connection
    async with await asyncio.start_server(connection, ADDRESS, 0, ssl=context) as listener:
        yield f"https://{ADDRESS}:{listener.sockets[0].getsockname()[1]}/"
