"""Errors of stores become 503 responses, which sign nobody out."""

from __future__ import annotations

import asyncio
from traceback import extract_tb
from typing import NamedTuple, Self
from urllib.parse import unquote

from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.protocol.error_text import MAX_VALUE, cleaned, without


class Place(NamedTuple):
    """Where a store is, without its user and password, and what its errors must not show."""

    address: str
    secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, url: str) -> Self:
        """The place at `url`."""
        scheme, _, rest = url.partition("://")
        authority, slash, path = rest.partition("?")[0].partition("/")
        user, _, hosts = authority.rpartition("@")
        password = user.partition(":")[2]
        secrets = tuple(each for each in (password, unquote(password)) if each)
        return cls(f"{scheme}://{hosts}{slash}{path}", secrets)


class unavailable_as:  # noqa: N801 - a context manager reads like a function
    """Turn an exception of a store within the block into session.store_unavailable (503).

    So does a CancelledError that a store raises although nobody has cancelled the task.
    """

    __slots__ = ("_doing", "_store")

    def __init__(self, store: Place | None = None, doing: str = "") -> None:
        self._store, self._doing = store, doing

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        """Raise the SessionError. Errors of this library pass unchanged."""
        if error is None or isinstance(error, OIDCError):
            return
        if isinstance(error, Exception) or _is_of_the_store(error):
            explanation = _explained(error, self._store, self._doing)
            raise SessionError(Code.SESSION_STORE_UNAVAILABLE, explanation) from error


def _explained(error: BaseException, store: Place | None, doing: str) -> str:
    """What was asked, where, and why it failed. The text of an application's error may be secret.

    So only the drivers of our own stores are quoted, without the secrets in their URLs.
    """
    name = type(error).__name__
    if store is None:
        place = extract_tb(error.__traceback__)[-1]
        return f"the store raised {name} in {place.name}, line {place.lineno} of {place.filename}"
    said = getattr(error, "orig", None) or error  # SQLAlchemy adds the statement and its values
    text = cleaned(without(" ".join(str(said).split()), store.secrets), MAX_VALUE)
    remedy = "; await SQLStore(...).create_tables() makes the tables" if lacks_table(text) else ""
    cause = f"{name}: {text}" if text else name
    return f"the store {store.address} could not {doing}: {cause}{remedy}"


def lacks_table(text: str) -> bool:
    """Whether SQLite or PostgreSQL says so in the text of its error."""
    return "no such table" in text or ("relation" in text and "does not exist" in text)


def _is_of_the_store(error: BaseException) -> bool:
    """Whether `error` is a cancellation of something within the store."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and not task.cancelling()
