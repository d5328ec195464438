"""Stores and lock on Redis 7, for any number of processes; needs the extra `redis`.

Redis errors, time-outs included, become a SessionError, a 503 response.
"""

from fastapi_oidc.session.redis.clients import DEFAULT_PREFIX
from fastapi_oidc.session.redis.records import RedisRefreshLock
from fastapi_oidc.session.redis.revocation_store import RedisRevocationStore
from fastapi_oidc.session.redis.session_store import RedisSessionStore
from fastapi_oidc.session.redis.store import RedisStore

__all__ = [
    "DEFAULT_PREFIX",
    "RedisRefreshLock",
    "RedisRevocationStore",
    "RedisSessionStore",
    "RedisStore",
]
