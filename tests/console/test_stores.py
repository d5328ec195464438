"""Where sessions are kept."""

from __future__ import annotations

import pytest

from examples.console.settings import ConsoleSettings, SettingsError
from examples.console.stores import sessions_at
from fastapi_oidc.session.redis import RedisStore


def test_without_a_redis_they_are_kept_in_the_process() -> None:
    assert sessions_at(ConsoleSettings.from_environment({}).redis) == "memory"


def test_with_a_redis_sessions_are_there() -> None:
    redis = ConsoleSettings.from_environment({"CONSOLE_REDIS": "unix:///run/redis.sock"}).redis
    assert isinstance(sessions_at(redis), RedisStore)


def test_an_address_that_is_none_is_refused_in_one_sentence() -> None:
    with pytest.raises(SettingsError, match=r"CONSOLE_REDIS: .*redis://"):
        sessions_at("localhost:6379")
