"""A node of a cluster that is killed or mute while people are signed in."""

from __future__ import annotations

import asyncio

import pytest

from tests.oidc.fleet.fleet import LONG_AFTER, running_fleet
from tests.oidc.fleet.test_redis_faults import Requests, assert_nobody_signed_out, served, under_way
from tests.oidc.redis_topologies.cluster import Cluster
from tests.oidc.redis_topologies.servers import Server
from tests.oidc.redis_topologies.test_cluster import asked

FOR_A_NODE = "?socket_timeout=2"
"""Seconds that a worker waits for one of them, on a busy machine."""


@pytest.mark.parametrize("program", ["valkey-server"], indirect=True, scope="module")
async def test_a_node_that_is_killed_or_mute_under_requests_signs_nobody_out(
    cluster: Cluster,
) -> None:
    with running_fleet() as fleet:
        fleet.redis_url = cluster.url + FOR_A_NODE
        first, second = fleet.workers({}, {})
        async with fleet.signed_in(first) as browser:
            asked(cluster)
            assert (await browser.get(second.at("/me"))).status_code == 200
            node = node_that_was_asked(cluster)
            for ends, heals in ((node.kill, node.start), (node.mute, node.unmute)):
                async with under_way(browser, first, second) as streams:
                    await until_all(streams, 200)
                    ends()
                    await until_all(streams, 503)
                    await asyncio.to_thread(heals)
                    await asyncio.to_thread(cluster.until_whole)
                    await until_all(streams, 200)
                assert_nobody_signed_out(streams)
            fleet.pass_seconds(LONG_AFTER)
            for worker in (second, first):
                assert (await served(browser, worker)).json()["generation"] == 1
        assert fleet.token_calls() == 1


async def until_all(streams: list[Requests], status: int) -> None:
    await asyncio.gather(*(stream.until_answered(status) for stream in streams))


def node_that_was_asked(cluster: Cluster) -> Server:
    """One that a request needs, for its row or for an ending."""
    counts = zip(cluster.nodes, asked(cluster), strict=True)
    return next(node for node, told in counts if "mget" in told)
