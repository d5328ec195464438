"""A server, a sentinel and a cluster that take TLS alone, from clients of their own authority."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.oidc.provider.certificates import Authority
from tests.oidc.redis_topologies.cluster import Cluster, Node
from tests.oidc.redis_topologies.conftest import FOR_A_BUSY_MACHINE
from tests.oidc.redis_topologies.servers import PATIENCE, Server, program_of, running
from tests.oidc.redis_topologies.test_access import assert_it_works, assert_unavailable
from tests.oidc.redis_topologies.watched import SERVICE


class Certificates:
    """What servers and clients show, all of one authority, and a stranger's."""

    def __init__(self, folder: Path) -> None:
        authority, other = Authority(folder, "authority"), Authority(folder, "other")
        self.authority, self.other = str(authority.file), str(other.file)
        self.server, self.client = str(authority.issue("server")), str(authority.issue("client"))
        self.stranger = str(other.issue("stranger"))

    def settings(self) -> dict[str, str]:
        """Of a server that speaks to others by TLS as well."""
        files = {"ca-cert-file": self.authority, "cert-file": self.server, "key-file": self.server}
        return {**files, "auth-clients": "yes", "replication": "yes", "cluster": "yes"}

    def shown(self, client: str, authority: str = "") -> str:
        """The end of a URL of ours, for who shows the certificate `client`, and trusts ours."""
        trusted = authority or self.authority
        return f"&ssl_ca_certs={trusted}&ssl_certfile={client}&ssl_keyfile={client}"


class OverTls(Server):
    """A server that listens with TLS alone."""

    def __init__(self, certificates: Certificates, program: str, folder: Path) -> None:
        super().__init__(program, folder)
        self.certificates = certificates

    def arguments(self, port: int) -> list[str]:
        words = super().arguments(0)
        for name, value in self.certificates.settings().items():
            words += [f"--tls-{name}", value]
        return [*words, "--tls-port", str(port)]

    def command(self, *words: str | int) -> Any:
        client = self.certificates.client
        with Redis(
            "127.0.0.1",
            self.port,
            socket_timeout=PATIENCE,
            ssl=True,
            ssl_ca_certs=self.certificates.authority,
            ssl_certfile=client,
            ssl_keyfile=client,
        ) as connection:
            return connection.execute_command(*words)


class NodeOverTls(OverTls, Node):
    """One of a cluster whose nodes speak TLS with each other."""


class SentinelOverTls(OverTls):
    master_port = 0

    def arguments(self, port: int) -> list[str]:
        configuration = self.folder / "sentinel.conf"
        settings = self.certificates.settings() | {"port": str(port)}
        lines = [f"tls-{name} {value}" for name, value in settings.items() if name != "cluster"]
        monitored = f"sentinel monitor {SERVICE} 127.0.0.1 {self.master_port} 1"
        configuration.write_text("\n".join(["bind 127.0.0.1", "port 0", *lines, monitored, ""]))
        return [str(configuration), "--sentinel"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@contextmanager
def alone(certificates: Certificates, program: str, folder: Path) -> Iterator[str]:
    server = OverTls(certificates, program, folder / "alone")
    with running(server):
        yield f"redis://127.0.0.1:{server.port}"


@contextmanager
def cluster(certificates: Certificates, program: str, folder: Path) -> Iterator[str]:
    cluster = Cluster(program, folder, partial(NodeOverTls, certificates))
    with running(*cluster.nodes):
        cluster.join()
        yield cluster.url


@contextmanager
def sentinel(certificates: Certificates, program: str, folder: Path) -> Iterator[str]:
    master = OverTls(certificates, program, folder / "master")
    sentinel = SentinelOverTls(certificates, program, folder / "sentinel")
    with running(master):
        sentinel.master_port = master.port
        with running(sentinel):
            yield f"redis+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}"


SHAPES = {"alone": alone, "cluster": cluster, "sentinel": sentinel}


@pytest.fixture(scope="module", params=SHAPES)
def url_without_tls(
    request: pytest.FixtureRequest, certificates: Certificates, tmp_path_factory: Any
) -> Iterator[str]:
    """Of servers that answer nobody who comes without TLS."""
    program = program_of("redis-server")
    with SHAPES[request.param](
        certificates, program, tmp_path_factory.mktemp(request.param)
    ) as url:
        yield url + FOR_A_BUSY_MACHINE


@pytest.fixture
def url(url_without_tls: str) -> str:
    return url_without_tls.replace("redis", "rediss", 1)


async def test_every_part_is_spoken_to_with_tls(url: str, certificates: Certificates) -> None:
    await assert_it_works(url + certificates.shown(certificates.client))


async def test_a_client_without_its_certificate_is_refused(
    url: str, certificates: Certificates
) -> None:
    for shown in (
        certificates.shown(certificates.stranger),
        f"&ssl_ca_certs={certificates.authority}",
    ):
        await assert_unavailable(url + shown)


async def test_a_server_of_another_authority_or_name_is_not_believed(
    url: str, certificates: Certificates
) -> None:
    """Its certificate is for 127.0.0.1."""
    client = certificates.client
    await assert_unavailable(url + certificates.shown(client, certificates.other))
    elsewhere = url.replace("127.0.0.1", "localhost") + certificates.shown(client)
    if "+" not in url:  # who asks a sentinel or a cluster is led to the right name
        await assert_unavailable(elsewhere)
    await assert_it_works(f"{elsewhere}&ssl_check_hostname=False")


async def test_without_tls_there_is_no_answer(url_without_tls: str) -> None:
    await assert_unavailable(url_without_tls)
