"""The store on Redis 7 or Valkey, for any number of processes; needs the extra `redis`."""

try:
    import redis  # noqa: F401
except ModuleNotFoundError as missing:
    explanation = "a store on Redis needs: pip install 'fastapi-oidc-vmm[redis]'"
    raise ModuleNotFoundError(explanation, name=missing.name) from None

from fastapi_oidc.session.redis.store import DEFAULT_PREFIX, RedisStore

__all__ = ["DEFAULT_PREFIX", "RedisStore"]
