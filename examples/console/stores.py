"""The stores of sessions: in the process, or on a Redis that several processes share."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from examples.console.settings import SettingsError
from fastapi_oidc import ConfigurationError, Store

REDIS_SECONDS: Final = 5.0

Sessions: TypeAlias = Store | Literal["memory"]


def sessions_at(redis_url: str | None, *, timeout: float = REDIS_SECONDS) -> Sessions:
    """Sessions on the Redis at `redis_url`, or in this process.

    A Redis command may take `timeout` seconds. Raises SettingsError.
    """
    if redis_url is None:
        return "memory"
    try:
        # A console of one process needs no Redis, and no client for it.
        from fastapi_oidc.session.redis import RedisStore

        return RedisStore(redis_url, timeout=timeout)
    except (ConfigurationError, ModuleNotFoundError) as error:
        raise SettingsError(f"CONSOLE_REDIS: {error}") from error
