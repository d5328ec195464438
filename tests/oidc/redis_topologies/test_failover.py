"""A replica becomes the master while people are signed in: what they see, and what is lost."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.store import DEFAULT_TIMEOUT
from fastapi_oidc.testing import sign_in
from tests.oidc.fleet.fleet import Fleet, running_fleet
from tests.oidc.fleet.test_redis_faults import (
    assert_nobody_is_signed_out,
    assert_refreshed_once,
    served,
)
from tests.oidc.fleet.worker_process import PATIENCE as BROWSER_PATIENCE
from tests.oidc.fleet.worker_process import Worker
from tests.oidc.redis_topologies.servers import PATIENCE, Server, program_of, until
from tests.oidc.redis_topologies.watched import SERVICE, Watched, running_watched
from tests.oidc.session.values import has_one

QUICK, SLOW = 2000, 3000
"""Milliseconds after which the sentinel gives a master up; a replica that was cut off for ten times
as long becomes no master."""


@contextmanager
def running_fleet_on(watched: Watched, mode: str) -> Iterator[tuple[Fleet, Worker, Worker]]:
    with running_fleet() as fleet:
        fleet.mode, fleet.redis_url = mode, f"{watched.url}?socket_timeout=1"
        first, second = fleet.workers({}, {})
        yield fleet, first, second


def cut_off(replica: Server) -> None:
    """It is told nothing more of what the master is told, and knows itself as a replica."""
    replica.command("CONFIG SET", "masteruser", "nobody")
    replica.command("CONFIG SET", "masterauth", "wrong")
    replica.command("CLIENT KILL", "TYPE", "master")


def fail_over(watched: Watched) -> None:
    """The master is killed, and another one takes its place."""
    master = watched.master
    master.kill()
    until(lambda: watched.master is not master, "a new master")


async def test_a_failover_under_requests_signs_nobody_out(tmp_path: Path) -> None:
    with (
        running_watched(program_of("valkey-server"), tmp_path, patience=QUICK) as watched,
        running_fleet_on(watched, "cookie") as (fleet, first, second),
    ):
        async with fleet.signed_in(first) as browser:
            await asyncio.to_thread(watched.until_replicated)
            await assert_nobody_is_signed_out(browser, [first, second], lambda: fail_over(watched))
            await assert_refreshed_once(fleet, browser, [first, second])


async def test_what_the_new_master_was_not_told_is_lost(tmp_path: Path) -> None:
    """A sign-out and, of a session store, a login."""
    with (
        running_watched(program_of("redis-server"), tmp_path, patience=SLOW) as watched,
        running_fleet_on(watched, "store") as (fleet, first, second),
    ):
        async with fleet.signed_in(first) as before, fleet.signed_in(first, "bob") as signed_out:
            await asyncio.to_thread(watched.until_replicated)
            cut_off(watched.replica)
            stolen = dict(signed_out.cookies)
            await signed_out.post(first.at("/auth/logout"), data={"local": "1"})
            signed_out.cookies.update(stolen)
            assert (await signed_out.get(second.at("/me"))).status_code == 401
            signed_out.cookies.update(stolen)
            async with fleet.signed_in(first) as after:
                await asyncio.to_thread(fail_over, watched)
                assert (await served(before, second)).status_code == 200
                assert (await served(signed_out, second)).status_code == 200
                assert (await served(after, second)).status_code == 401


async def test_a_master_that_wants_a_replica_takes_no_login_that_could_be_lost(
    tmp_path: Path,
) -> None:
    with (
        running_watched(program_of("redis-server"), tmp_path, patience=60_000) as watched,
        running_fleet_on(watched, "store") as (fleet, first, second),
    ):
        watched.master.command("CONFIG SET", "min-replicas-to-write", 1)
        async with (
            fleet.signed_in(first) as alice,
            httpx.AsyncClient(timeout=BROWSER_PATIENCE) as bob,
        ):
            master = watched.master
            cut_off(watched.replica)
            await asyncio.to_thread(until, lambda: has_no_replica(master), "a lonely master")
            login = second.at("/auth/login?return_to=/me")
            assert (await sign_in(bob, login, user="bob")).status_code == 503
            assert (await alice.get(second.at("/me"))).status_code == 200


def has_no_replica(server: Server) -> bool:
    return bool(server.command("INFO", "replication")["connected_slaves"] == 0)


MUTE = 2
"""Together they take a second, as long as whoever asks first may wait."""


@contextmanager
def mute_hosts() -> Iterator[str]:
    """They take connections and commands, and answer none."""
    with ExitStack() as stack:
        mute = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(MUTE)]
        yield ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in mute)


async def never(client: object) -> None:
    await asyncio.Event().wait()


async def test_a_master_is_found_again_behind_sentinels_that_are_mute(tmp_path: Path) -> None:
    with (
        running_watched(program_of("redis-server"), tmp_path, patience=60_000) as watched,
        mute_hosts() as mute,
    ):
        url = f"redis+sentinel://{mute},127.0.0.1:{watched.sentinel.port}/{SERVICE}"
        store = RedisStore(url)
        store._timeout = 0.01
        with pytest.raises(SessionError):
            await store._run(never, "wait")
        store._timeout = DEFAULT_TIMEOUT
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    assert not await has_one(store)
                    break
                except SessionError:
                    await asyncio.sleep(0.05)
        await store.aclose()
