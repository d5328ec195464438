"""What stores and lock promise, they promise on every shape of Redis and Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Sentinel

from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.redis import (
    RedisRefreshLock,
    RedisRevocationStore,
    RedisSessionStore,
    refresh_lock,
)
from fastapi_oidc.session.redis.connections import Connections
from fastapi_oidc.session.redis.scripts import Script
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.redis_topologies.servers import PATIENCE
from tests.oidc.redis_topologies.watched import SERVICE, running_watched
from tests.oidc.session.examples import SECRET, User, a_session
from tests.oidc.session.test_refresh_locks import KeepsAnswersContract
from tests.oidc.session.test_revocation_stores import ReasonContract
from tests.oidc.session.test_session_stores import SessionStoreContract
from tests.oidc.session.test_store_abilities import AbilityContract


class TestSessions(SessionStoreContract, AbilityContract):
    @pytest.fixture
    async def store(self, url: str, prefix: str) -> AsyncIterator[RedisSessionStore[User]]:
        store = RedisSessionStore.from_url(url, User, prefix=prefix)
        store.bind(SessionCodec(User), KeyRing([SECRET]).sealer("row"))
        yield store
        await store.aclose()


class TestEndings(ReasonContract):
    @pytest.fixture
    async def store(self, url: str, prefix: str) -> AsyncIterator[RedisRevocationStore]:
        store = RedisRevocationStore.from_url(url, prefix=prefix)
        yield store
        await store.aclose()


class TestLock(KeepsAnswersContract):
    @pytest.fixture
    async def lock(self, url: str, prefix: str) -> AsyncIterator[RedisRefreshLock]:
        lock = RedisRefreshLock.from_url(url, prefix=prefix)
        yield lock
        await lock.aclose()

    async def test_another_process_has_the_result_of_a_run_that_goes_on(
        self, url: str, prefix: str, lock: RedisRefreshLock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        under_way, looked = asyncio.Event(), asyncio.Event()
        run_script = Connections.run_script

        async def seen(self: Connections, script: Script, *words: Any) -> Any:
            answer = await run_script(self, script, *words)
            if script is refresh_lock._LOOK:
                looked.set()
            return answer

        async def operation() -> bytes:
            under_way.set()
            await looked.wait()
            return b"sealed"

        monkeypatch.setattr(Connections, "run_script", seen)
        owner = RedisRefreshLock.from_url(url, prefix=prefix)
        async with asyncio.timeout(PATIENCE):
            owned = asyncio.create_task(owner.run_exclusive("session-1", operation))
            await under_way.wait()
            assert await lock.run_exclusive("session-1", operation) == b"sealed"
            assert await owned == b"sealed"
        await owner.aclose()


async def test_a_client_of_a_sentinel_is_taken(program: str, tmp_path: Path) -> None:
    with running_watched(program, tmp_path, patience=60_000) as watched:
        sentinel = Sentinel([("127.0.0.1", watched.sentinel.port)])  # type: ignore[no-untyped-call]
        client = sentinel.master_for(SERVICE)
        store = RedisSessionStore(client, User)
        await store.set("a" * 43, a_session())
        assert await store.get("a" * 43) == a_session()
        await client.aclose()
        await asyncio.gather(*(one.aclose() for one in sentinel.sentinels))
