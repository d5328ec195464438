"""What an application may give as a store."""

from __future__ import annotations

import inspect

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.memory_store import MemoryStore
from fastapi_oidc.session.own_store import ExclusiveStore, RefreshLock, SessionStore
from fastapi_oidc.session.store import Store


def store_of(
    value: object, clock: Clock, *, lock: object = None, option: str = "session_store"
) -> Store:
    """The store that `value`, an option's argument, stands for.

    `value` is a store, a `SessionStore` of the application, for which `lock` is, a URL, or
    "memory". Raises ConfigurationError (configuration.invalid) for anything else, and
    ModuleNotFoundError if the extra that the URL needs is not installed.
    """
    if not isinstance(lock, RefreshLock | None):
        raise _invalid(f"refresh_lock is {_kind(lock)}; give an instance of RefreshLock")
    if isinstance(value, SessionStore):
        return ExclusiveStore(value, lock, clock=clock)
    if lock is not None:
        raise _invalid("refresh_lock is for a SessionStore of your own; other stores need none")
    if isinstance(value, Store):
        return value
    if value == "memory":
        return MemoryStore(clock=clock)
    store = _store_at(value) if isinstance(value, str) else None
    if store is None:
        raise _invalid(
            f"{option} is {_kind(value)}; give an instance of Store or SessionStore, the URL of a "
            'Redis, PostgreSQL or SQLite database, or "memory"'
        )
    return store


def _store_at(url: str) -> Store | None:
    """The store at `url`; None if its scheme is unknown."""
    scheme = url.partition("://")[0].lower().partition("+")[0] if "://" in url else ""
    if scheme in ("redis", "rediss", "unix"):
        from fastapi_oidc.session.redis import RedisStore

        return RedisStore(url)
    if scheme in ("postgresql", "sqlite"):
        from fastapi_oidc.session.sql import SQLStore

        return SQLStore(url, creates_tables=True)
    return None


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "a text"  # which may be a URL with a password
    if inspect.isclass(value):
        return f"the class {value.__name__}, not an instance of it"
    return f"an instance of {type(value).__name__}"


def _invalid(explanation: str) -> ConfigurationError:
    return ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
