"""A server that takes TLS alone, from clients of its own authority."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oidc.provider.certificates import Authority
from tests.oidc.redis_topologies.servers import Server, program_of, running
from tests.oidc.redis_topologies.test_operations import assert_it_works, assert_unavailable


class Certificates:
    """What servers and clients show, all of one authority, and a stranger's."""

    def __init__(self, folder: Path) -> None:
        authority, other = Authority(folder, "authority"), Authority(folder, "other")
        self.authority, self.other = str(authority.file), str(other.file)
        self.server, self.client = str(authority.issue("server")), str(authority.issue("client"))
        self.stranger = str(other.issue("stranger"))

    def settings(self) -> dict[str, str]:
        """Of a server."""
        files = {"ca-cert-file": self.authority, "cert-file": self.server, "key-file": self.server}
        return {**files, "auth-clients": "yes"}

    def shown(self, client: str, authority: str = "") -> str:
        """The end of a URL of ours, for who shows the certificate `client`, and trusts ours."""
        trusted = authority or self.authority
        return f"&ssl_ca_certs={trusted}&ssl_certfile={client}&ssl_keyfile={client}"


class OverTls(Server):
    """A server that listens with TLS alone."""

    def __init__(self, certificates: Certificates, program: str, folder: Path) -> None:
        super().__init__(program, folder)
        self.certificates = certificates

    def arguments(self) -> list[str]:
        words = [*super().arguments(), "--port", "0"]
        for name, value in self.certificates.settings().items():
            words += [f"--tls-{name}", value]
        return [*words, "--tls-port", str(self.port)]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def url_without_tls(certificates: Certificates, tmp_path_factory: Any) -> Iterator[str]:
    """Of a server that answers nobody who comes without TLS."""
    server = OverTls(certificates, program_of("redis-server"), tmp_path_factory.mktemp("tls") / "a")
    with running(server):
        yield f"redis://127.0.0.1:{server.port}?socket_timeout=5&socket_connect_timeout=5"


@pytest.fixture
def url(url_without_tls: str) -> str:
    return url_without_tls.replace("redis", "rediss", 1)


async def test_a_client_with_its_certificate_alone_is_served(
    url: str, url_without_tls: str, certificates: Certificates
) -> None:
    await assert_it_works(url + certificates.shown(certificates.client))
    await assert_unavailable(url + certificates.shown(certificates.stranger))
    await assert_unavailable(f"{url}&ssl_ca_certs={certificates.authority}")
    await assert_unavailable(url_without_tls)


async def test_a_server_of_another_authority_or_name_is_not_believed(
    url: str, certificates: Certificates
) -> None:
    """Its certificate is for 127.0.0.1."""
    client = certificates.client
    await assert_unavailable(url + certificates.shown(client, certificates.other))
    elsewhere = url.replace("127.0.0.1", "localhost") + certificates.shown(client)
    await assert_unavailable(elsewhere)
    await assert_it_works(f"{elsewhere}&ssl_check_hostname=False")
