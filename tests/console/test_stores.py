"""Where sessions are kept."""

from __future__ import annotations

import pytest

from examples.console.settings import ConsoleSettings, SettingsError
from examples.console.stores import Stores
from fastapi_oidc.session.redis import RedisRefreshLock, RedisSessionStore


def test_without_a_redis_they_are_kept_in_the_process() -> None:
    stores = Stores.at(ConsoleSettings.from_environment({}).redis)
    assert (stores.sessions, stores.endings, stores.refresh_lock) == ("memory", "memory", None)


def test_with_one_sessions_endings_and_the_lock_are_there() -> None:
    redis = ConsoleSettings.from_environment({"CONSOLE_REDIS": "unix:///run/redis.sock"}).redis
    stores = Stores.at(redis)
    assert isinstance(stores.sessions, RedisSessionStore)
    assert stores.endings is stores.sessions
    assert isinstance(stores.refresh_lock, RedisRefreshLock)


def test_an_address_that_is_none_is_refused_in_one_sentence() -> None:
    with pytest.raises(SettingsError, match=r"CONSOLE_REDIS: .*redis://"):
        Stores.at("localhost:6379")
