"""Sentinels that are mute on the way to a master that is well."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.store import DEFAULT_TIMEOUT
from tests.oidc.redis_topologies.servers import PATIENCE, program_of
from tests.oidc.redis_topologies.watched import SERVICE, running_watched
from tests.oidc.session.values import has_one

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
