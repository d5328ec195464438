"""What an application gave as a store: refused where it is written, not at the first login."""

from __future__ import annotations

import inspect

from fastapi_oidc.errors import Code, ConfigurationError

SESSION_STORE = ("get", "set", "delete")
REVOCATION_STORE = ("revoke", "is_revoked")
REFRESH_LOCK = ("run_exclusive",)


def require_stores(sessions: object, endings: object, lock: object) -> None:
    """What the application gave is None, "memory" where that is taken, or has every method.

    Raises ConfigurationError (configuration.invalid), for another text or a class above all.
    """
    if sessions != "memory":
        _require("session_store", sessions, SESSION_STORE)
    if endings != "memory":
        _require("back_channel_logout_store", endings, REVOCATION_STORE)
    _require("refresh_lock", lock, REFRESH_LOCK)


def _require(option: str, given: object, methods: tuple[str, ...]) -> None:
    if given is None or _has(given, methods):
        return
    raise ConfigurationError(
        Code.CONFIGURATION_INVALID,
        f"{option} is {_said(given)}; it takes an object with the methods {', '.join(methods)}"
        + (', or "memory"' if option != "refresh_lock" else ""),
    )


def _has(given: object, methods: tuple[str, ...]) -> bool:
    is_object = not inspect.isclass(given)
    return is_object and all(callable(getattr(given, method, None)) for method in methods)


def _said(given: object) -> str:
    if isinstance(given, str):
        return "a text"  # which may be a URL with a password
    if inspect.isclass(given):
        return f"the class {given.__name__}, not an object of it"
    return f"a {type(given).__name__}"
