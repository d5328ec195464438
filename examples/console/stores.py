"""Where the console keeps sessions: in its process, or on a Redis that several processes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Self

from examples.console.identity import User
from examples.console.settings import SettingsError
from fastapi_oidc import RefreshLock, RevocationStore, SessionStore


@dataclass(frozen=True, slots=True)
class Stores:
    """Sessions, their endings, and the lock that lets one process refresh a session."""

    sessions: SessionStore[User] | Literal["memory"]
    endings: RevocationStore | Literal["memory"]
    refresh_lock: RefreshLock | None = None

    @classmethod
    def at(cls, redis_url: str | None) -> Self:
        """On the Redis at `redis_url`, for any number of processes; None: in this one.

        Raises SettingsError.
        """
        if redis_url is None:
            return cls("memory", "memory")
        try:
            return cls._on_redis(redis_url)
        except (ValueError, ModuleNotFoundError) as error:
            raise SettingsError(f"CONSOLE_REDIS: {error}") from error

    @classmethod
    def _on_redis(cls, url: str) -> Self:
        # A console of one process needs no Redis, and no client for it.
        from fastapi_oidc.session.redis import RedisRefreshLock, RedisSessionStore

        sessions = RedisSessionStore.from_url(url, User)
        return cls(sessions, sessions, RedisRefreshLock.from_url(url))


IN_THIS_PROCESS: Final = Stores.at(None)
