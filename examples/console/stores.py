"""Where the console keeps sessions: in its process, or on a Redis that several processes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Self

from examples.console.identity import User
from examples.console.settings import SettingsError
from fastapi_oidc import ConfigurationError, RefreshLock, RevocationStore, SessionStore

REDIS_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Stores:
    """Sessions, their endings, and the lock that lets one process refresh a session."""

    sessions: SessionStore[User] | Literal["memory"]
    endings: RevocationStore | Literal["memory"]
    refresh_lock: RefreshLock | None = None

    @classmethod
    def at(cls, redis_url: str | None, *, timeout: float = REDIS_SECONDS) -> Self:
        """On the Redis at `redis_url`, for any number of processes; None: in this one.

        A command there may take `timeout` seconds. Raises SettingsError.
        """
        if redis_url is None:
            return cls("memory", "memory")
        try:
            return cls._on_redis(redis_url, timeout)
        except (ConfigurationError, ModuleNotFoundError) as error:
            raise SettingsError(f"CONSOLE_REDIS: {error}") from error

    @classmethod
    def _on_redis(cls, url: str, timeout: float) -> Self:
        # A console of one process needs no Redis, and no client for it.
        from fastapi_oidc.session.redis import RedisRefreshLock, RedisSessionStore

        sessions = RedisSessionStore.from_url(url, User, timeout=timeout)
        return cls(sessions, sessions, RedisRefreshLock.from_url(url, timeout=timeout))


IN_THIS_PROCESS: Final = Stores.at(None)
