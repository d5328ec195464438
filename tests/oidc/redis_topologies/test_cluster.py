"""A cluster of three: one wait for each request, and what a node that is gone costs; TLS."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio.cluster import ClusterNode

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.redis import RedisStore
from tests.oidc.fleet.fleet import running_fleet
from tests.oidc.fleet.test_workers import assert_nobody_is_signed_out, assert_refreshed_once
from tests.oidc.provider.certificates import Authority
from tests.oidc.redis_topologies.clients import close, cluster_client, master_client
from tests.oidc.redis_topologies.cluster import Cluster
from tests.oidc.redis_topologies.servers import PATIENCE, Server, program_of, running, until
from tests.oidc.redis_topologies.test_operations import assert_it_works, assert_unavailable
from tests.oidc.redis_topologies.watched import Watched, running_watched
from tests.oidc.session.values import KEY, ONE, has_one, put_one

KEYS = [KEY, *(f"revoked:{number}" for number in range(5))]
VALUES = [ONE.value, *([b""] * 5)]
COMMANDS_OF_OUR_OWN = {"info", "config|resetstat", "hello", "client|setinfo"}


@pytest.fixture(scope="module")
def program() -> str:
    return program_of("redis-server")


@asynccontextmanager
async def store_of(cluster: Cluster, **options: Any) -> AsyncIterator[RedisStore]:
    client = cluster_client(cluster.ports)
    yield RedisStore(client, **options)
    await client.aclose()


def asked(cluster: Cluster) -> list[dict[str, int]]:
    """How often each node was told each command since it was asked this the last time."""
    counts = []
    for node in cluster.nodes:
        stats = node.command("INFO", "commandstats")
        node.command("CONFIG RESETSTAT")
        named = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}
        counts.append({name: named[name] for name in named.keys() - COMMANDS_OF_OUR_OWN})
    return counts


class AllAtOnce:
    """Each node is asked only when all of them are to be."""

    def __init__(self, nodes: int) -> None:
        self.arrived, self.sent = asyncio.Barrier(nodes), ClusterNode.execute_pipeline

    async def execute_pipeline(self, node: ClusterNode, commands: Any) -> bool:
        async with asyncio.timeout(PATIENCE):
            await self.arrived.wait()
        return await self.sent(node, commands)


async def test_several_values_are_one_wait(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_of(cluster) as store:
        await put_one(store)
        asked(cluster)
        assert await store.read(KEYS) == VALUES
        told = asked(cluster)
        assert all(set(node) <= {"mget"} for node in told)
        assert sum(sum(node.values()) for node in told) == len(KEYS)
        together = AllAtOnce(sum(bool(node) for node in told))
        monkeypatch.setattr(
            ClusterNode, "execute_pipeline", lambda *args: together.execute_pipeline(*args)
        )
        assert await store.read(KEYS) == VALUES


async def test_a_prefix_with_braces_keeps_all_on_one_node_in_one_command(cluster: Cluster) -> None:
    async with store_of(cluster, prefix="{ours}:") as store:
        await put_one(store)
        asked(cluster)
        assert await store.read(KEYS) == VALUES
        assert sorted(map(str, asked(cluster))) == ["{'mget': 1}", "{}", "{}"]


async def test_a_client_that_was_given_is_left_open(cluster: Cluster) -> None:
    client = cluster_client(cluster.ports[:1])
    store = RedisStore(client)
    await put_one(store)
    assert await store.read(KEYS) == VALUES
    await store.aclose()
    node = next(node for node in client.get_primaries() if node._connections)
    assert any(connection.is_connected for connection in node._connections)
    await client.aclose()


FOR_A_NODE = 2.0
"""Seconds that a worker waits for one of them, on a busy machine."""


@pytest.mark.parametrize("program", ["valkey-server"], indirect=True, scope="module")
async def test_a_node_killed_or_mute_under_requests_signs_nobody_out(cluster: Cluster) -> None:
    with running_fleet() as fleet:
        fleet.redis_at = partial(cluster_client, cluster.ports, seconds=FOR_A_NODE)
        workers = fleet.workers({}, {})
        async with fleet.signed_in(workers[0]) as browser:
            asked(cluster)
            assert (await browser.get(workers[1].at("/me"))).status_code == 200
            node = node_that_was_asked(cluster)
            for ends, heals in ((node.kill, node.start), (node.mute, node.unmute)):

                def heal_all(heals: Callable[[], None] = heals) -> None:
                    heals()
                    cluster.until_whole()

                await assert_nobody_is_signed_out(browser, workers, ends, heal_all)
            await assert_refreshed_once(fleet, browser, workers)


def node_that_was_asked(cluster: Cluster) -> Server:
    """One that a request needs, for its row or for an ending."""
    counts = zip(cluster.nodes, asked(cluster), strict=True)
    return next(node for node, told in counts if "mget" in told)


PATIENCE_OF_THE_SENTINEL = 2000
"""Milliseconds after which it gives a master up."""


def fail_over(watched: Watched) -> None:
    """The master is killed, and another one takes its place."""
    master = watched.master
    master.kill()
    until(lambda: watched.master is not master, "a new master")


async def test_a_failover_under_requests_signs_nobody_out(tmp_path: Path) -> None:
    with (
        running_watched(
            program_of("valkey-server"), tmp_path, patience=PATIENCE_OF_THE_SENTINEL
        ) as watched,
        running_fleet() as fleet,
    ):
        fleet.mode = "cookie"
        fleet.redis_at = partial(master_client, watched.ports, seconds=1)
        workers = fleet.workers({}, {})
        async with fleet.signed_in(workers[0]) as browser:
            await asyncio.to_thread(watched.until_replicated)
            await assert_nobody_is_signed_out(browser, workers, lambda: fail_over(watched))
            await assert_refreshed_once(fleet, browser, workers)


MUTE, OF_A_SENTINEL = 2, 0.5
"""Together they take a second, as long as whoever asks first may wait."""


@contextmanager
def mute_ports() -> Iterator[list[int]]:
    """They take connections and commands, and answer none."""
    with ExitStack() as stack:
        mute = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(MUTE)]
        yield [one.getsockname()[1] for one in mute]


async def test_a_master_is_found_again_behind_sentinels_that_are_mute(tmp_path: Path) -> None:
    with (
        running_watched(program_of("redis-server"), tmp_path, patience=60_000) as watched,
        mute_ports() as mute,
    ):
        client = master_client([*mute, watched.sentinel.port], sentinel_seconds=OF_A_SENTINEL)
        store = RedisStore(client)
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    assert not await has_one(store)
                    break
                except SessionError:
                    await asyncio.sleep(0.05)
        await close(client)


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
