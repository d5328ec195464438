"""What stores and lock promise, they promise on every shape of Redis and Valkey."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.redis import RedisRefreshLock, RedisRevocationStore, RedisSessionStore
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.session.examples import SECRET, User
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
