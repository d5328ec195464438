"""The store on Redis 7 or Valkey, for any number of processes; needs the extra `redis`."""

from fastapi_oidc.session.redis.clients import DEFAULT_PREFIX
from fastapi_oidc.session.redis.store import RedisStore

__all__ = ["DEFAULT_PREFIX", "RedisStore"]
