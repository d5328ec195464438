"""Checks a Redis that has sessions or what ends them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from fastapi_oidc.doctor.finding import Finding, fault, note, ok, warning
from fastapi_oidc.errors import SessionError

if TYPE_CHECKING:
    from fastapi_oidc.session.redis import RedisStore

_NEEDED = "a Redis that evicts keys forgets which sessions have ended: maxmemory-policy noeviction"


async def redis(url: str) -> AsyncIterator[Finding]:
    """Yield what is found; nothing is written. Raises ConfigurationError for an invalid URL."""
    from fastapi_oidc.session.redis import RedisStore  # needs the extra

    store = RedisStore(url)
    try:
        await store.read(["doctor"])
        yield ok("Redis", "it responds")
        yield await _eviction(store)
    except SessionError as error:
        yield fault("Redis", error.explanation)
    finally:
        await store.aclose()


async def _eviction(store: RedisStore) -> Finding:
    try:
        evicts = await store.may_evict()
    except SessionError:  # the documented user may not ask
        return note("Redis", f"its user may not read the policy; {_NEEDED}")
    return warning("Redis", _NEEDED) if evicts else ok("Redis", "it evicts no keys")
