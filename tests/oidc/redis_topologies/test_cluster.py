"""A cluster of three: one wait for each request, and what a node that is gone or mute costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.redis import RedisSessionStore
from fastapi_oidc.session.redis.clients import NODE_SECONDS
from fastapi_oidc.session.revocations import digests_of
from tests.oidc.redis_topologies.cluster import Cluster
from tests.oidc.redis_topologies.conftest import FOR_A_BUSY_MACHINE
from tests.oidc.redis_topologies.servers import PATIENCE, Server
from tests.oidc.session.examples import User, a_record, a_session, bound

ID = "a" * 43
DIGESTS = digests_of(a_session())
COMMANDS_OF_OUR_OWN = {"info", "config|resetstat", "hello", "client|setinfo"}


@asynccontextmanager
async def store_of(cluster: Cluster, **options: Any) -> AsyncIterator[RedisSessionStore[User]]:
    store = bound(RedisSessionStore.from_url(cluster.url + FOR_A_BUSY_MACHINE, User, **options))
    yield store
    await store.aclose()


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


async def test_row_and_revocations_are_one_wait(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_of(cluster) as store:
        await store.set(ID, a_session())
        asked(cluster)
        assert await store.find(ID, DIGESTS) == (a_session(), None)
        told = asked(cluster)
        assert all(set(node) <= {"mget"} for node in told)
        assert sum(sum(node.values()) for node in told) == 1 + len(DIGESTS)
        together = AllAtOnce(sum(bool(node) for node in told))
        monkeypatch.setattr(
            ClusterNode, "execute_pipeline", lambda *args: together.execute_pipeline(*args)
        )
        assert await store.find(ID, DIGESTS) == (a_session(), None)


async def test_a_prefix_with_braces_keeps_all_on_one_node_in_one_command(cluster: Cluster) -> None:
    async with store_of(cluster, prefix="{ours}:") as store:
        await store.set(ID, a_session())
        await store.revocations.revoke(a_record())
        asked(cluster)
        _, ended = await store.find(ID, DIGESTS)
        assert ended == "ended_by_provider"
        assert sorted(map(str, asked(cluster))) == ["{'mget': 1}", "{}", "{}"]


async def test_a_client_that_was_given_is_taken_and_left_open(cluster: Cluster) -> None:
    client = RedisCluster.from_url(f"redis://127.0.0.1:{cluster.nodes[0].port}")
    store = bound(RedisSessionStore(client, User))
    await store.set(ID, a_session())
    assert await store.find(ID, DIGESTS) == (a_session(), None)
    await store.aclose()
    node = next(node for node in client.get_primaries() if node._connections)
    assert any(connection.is_connected for connection in node._connections)
    await client.aclose()


async def assert_unavailable(store: RedisSessionStore[User]) -> float:
    """The seconds that it took to say so."""
    began = time.monotonic()
    with pytest.raises(SessionError) as caught:
        await store.find(ID, DIGESTS)
    assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE
    return time.monotonic() - began


async def assert_found_again(store: RedisSessionStore[User]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                assert await store.find(ID, DIGESTS) == (a_session(), None)
                return
            except SessionError:
                await asyncio.sleep(0.05)


def node_of_row(cluster: Cluster) -> Server:
    """The node that has the row of `ID`."""
    name = f"fastapi_oidc:session:{ID}"
    return next(node for node in cluster.nodes if name.encode() in node.command("KEYS", "*"))


async def test_a_mute_node_costs_one_wait(cluster: Cluster) -> None:
    async with store_of(cluster) as patient:
        await patient.set(ID, a_session())
    store = bound(RedisSessionStore.from_url(cluster.url, User))
    await assert_found_again(store)
    node = node_of_row(cluster)
    node.mute()
    assert await assert_unavailable(store) >= NODE_SECONDS
    waits = [await assert_unavailable(store) for _ in range(30)]
    assert sum(waits) < 30 * NODE_SECONDS
    node.unmute()
    await asyncio.to_thread(cluster.until_whole)
    await assert_found_again(store)
    await store.aclose()


async def test_a_slot_that_moves_is_followed(cluster: Cluster) -> None:
    async with store_of(cluster) as store:
        await store.set(ID, a_session())
        source = node_of_row(cluster)
        target = next(node for node in cluster.nodes if node is not source)
        name = f"fastapi_oidc:session:{ID}"
        slot = source.command("CLUSTER KEYSLOT", name)
        source_id, target_id = source.command("CLUSTER MYID"), target.command("CLUSTER MYID")
        target.command("CLUSTER SETSLOT", slot, "IMPORTING", source_id)
        source.command("CLUSTER SETSLOT", slot, "MIGRATING", target_id)
        source.command("MIGRATE", "127.0.0.1", target.port, name, 0, 5000)
        assert await store.find(ID, DIGESTS) == (a_session(), None)
        for node in (target, source):
            node.command("CLUSTER SETSLOT", slot, "NODE", target_id)
        assert await store.find(ID, DIGESTS) == (a_session(), None)
        assert await store.replace(ID, a_session().model_copy(update={"generation": 1}))
