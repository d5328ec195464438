"""A replica becomes the master while people are signed in: what they see, and what is lost."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.store import DEFAULT_TIMEOUT
from tests.oidc.fleet.fleet import running_fleet
from tests.oidc.fleet.test_redis_faults import assert_nobody_is_signed_out, assert_refreshed_once
from tests.oidc.redis_topologies.clients import close, master_client
from tests.oidc.redis_topologies.servers import PATIENCE, program_of, until
from tests.oidc.redis_topologies.watched import Watched, running_watched
from tests.oidc.session.values import has_one

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


async def never(client: object) -> None:
    await asyncio.Event().wait()


async def test_a_master_is_found_again_behind_sentinels_that_are_mute(tmp_path: Path) -> None:
    with (
        running_watched(program_of("redis-server"), tmp_path, patience=60_000) as watched,
        mute_ports() as mute,
    ):
        client = master_client([*mute, watched.sentinel.port], sentinel_seconds=OF_A_SENTINEL)
        store = RedisStore(client)
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
        await close(client)
