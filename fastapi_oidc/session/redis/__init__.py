"""The store on Redis 7 or Valkey, for any number of processes; needs the extra `redis`."""

from fastapi_oidc.installation import extra

with extra("redis", "a store on Redis needs"):
    import redis  # noqa: F401

from fastapi_oidc.session.redis.store import DEFAULT_PREFIX, RedisStore

__all__ = ["DEFAULT_PREFIX", "RedisStore"]
