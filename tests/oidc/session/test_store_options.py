"""What an application may give as a store."""

from __future__ import annotations

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.memory_store import MemoryStore
from fastapi_oidc.session.own_store import ExclusiveStore, LockOfThisLoop
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.sql import SQLStore
from fastapi_oidc.session.store_options import store_of
from tests.oidc.session.test_own_store import Dictionary

CLOCK = Clock()


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("memory", MemoryStore),
        ("redis://localhost", RedisStore),
        ("rediss://app:pass@localhost:6380/2", RedisStore),
        ("unix:///run/redis.sock", RedisStore),
        ("REDIS+sentinel://one,two/mymaster", RedisStore),
        ("rediss+cluster://one,two", RedisStore),
        ("postgresql+asyncpg://app:pass@localhost/app", SQLStore),
        ("sqlite+aiosqlite:///sessions.db", SQLStore),
        (Dictionary(), ExclusiveStore),
        (MemoryStore(), MemoryStore),
    ],
)
def test_what_is_a_store(given: object, kind: type[object]) -> None:
    store = store_of(given, CLOCK)
    assert type(store) is kind
    assert (store is given) is isinstance(given, MemoryStore)
    assert store.is_in_memory is (kind is MemoryStore)


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "redis",
        "redis:hunter2",
        "mysql+aiomysql://app:hunter2@db/app",
        "http://app:hunter2@db",
        " redis://app:hunter2@db",
        Dictionary,
        MemoryStore,
        object(),
        b"memory",
    ],
)
def test_what_is_none_is_refused_by_the_name_of_its_option(given: object) -> None:
    with pytest.raises(ConfigurationError, match="back_channel_logout_store is ") as caught:
        store_of(given, CLOCK, option="back_channel_logout_store")
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["redis+ring://app:hunter2@db", "postgresql://app:hunter2@db", "sqlite:///hunter2"]
)
def test_a_url_that_its_extra_does_not_take_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"URL is (redis|postgresql\+asyncpg)://"
    ) as caught:
        store_of(url, CLOCK)
    assert "hunter2" not in str(caught.value)


def test_a_lock_is_for_a_store_of_the_application() -> None:
    assert isinstance(store_of(Dictionary(), CLOCK, lock=LockOfThisLoop()), ExclusiveStore)
    with pytest.raises(ConfigurationError, match="refresh_lock"):
        store_of("memory", CLOCK, lock=LockOfThisLoop())
