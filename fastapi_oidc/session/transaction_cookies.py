"""Pending logins: one sealed cookie each, so logins in several tabs do not interfere."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Final

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.codec import TransactionCodec
from fastapi_oidc.session.cookies import PENDING_SECONDS, CookieChange, CookieNames, SameSite
from fastapi_oidc.session.model import LoginTransaction
from fastapi_oidc.session.sealing import Sealer

MAXIMUM_PENDING: Final = 8

MAXIMUM_COOKIE_BYTES: Final = 7168
"""Bytes of all cookies of this library: servers and proxies accept 8 kB of headers."""

REFERENCE_BYTES: Final = 1024
"""Bytes of the budget for the session cookie when the session is in a store."""


class TransactionCookies:
    """Writes, finds and ends pending logins. Each expires after PENDING_SECONDS.

    A browser has at most eight of them. With the session cookie, for which `reserved` bytes are,
    and the cookie of a pending logout they are at most MAXIMUM_COOKIE_BYTES long; the new one
    counts before older ones.

    `same_site` is "none" only if the provider responds with a cross-site form post.
    """

    def __init__(
        self,
        sealer: Sealer,
        names: CookieNames,
        *,
        same_site: SameSite = "lax",
        reserved: int = REFERENCE_BYTES,
    ) -> None:
        self._sealer, self._names, self._same_site = sealer, names, same_site
        self._room = MAXIMUM_COOKIE_BYTES - reserved
        self._codec = TransactionCodec()

    def begun(
        self, transaction: LoginTransaction, cookies: Mapping[str, str]
    ) -> tuple[CookieChange, ...]:
        """Set the cookie of a new login and delete old ones of `cookies`, if they do not fit."""
        name = self._names.transaction(transaction.state)
        value = self._sealer.seal(self._codec.encode(transaction), name=name)
        room = self._room - _size(name, value)
        if logout := cookies.get(self._names.logout):
            room -= _size(self._names.logout, logout)
        evictions = self._evictions(cookies, room, now=transaction.created_at)
        return (*evictions, self._change(name, value))

    def find(self, state: str, cookies: Mapping[str, str], *, now: int) -> LoginTransaction | None:
        """The pending login with this `state`; None when it is missing, unreadable or too old."""
        name = self._names.transaction(state)
        pending = self._opened(name, cookies.get(name, ""))
        if pending is None or now >= pending.created_at + PENDING_SECONDS:
            return None
        return pending

    def is_unreadable(self, state: str, cookies: Mapping[str, str]) -> bool:
        """Whether the browser has this login's cookie, and no key here opens it."""
        name = self._names.transaction(state)
        return name in cookies and self._opened(name, cookies[name]) is None

    def ended(self, state: str, cookies: Mapping[str, str]) -> tuple[CookieChange, ...]:
        """Delete the cookie of the login with this `state`, whatever its outcome.

        An unreadable cookie stays: another version of this library may have written it, and the
        next request may reach a process that can read it.
        """
        if self.is_unreadable(state, cookies):
            return ()
        return (self._change(self._names.transaction(state), None),)

    def _evictions(self, cookies: Mapping[str, str], room: int, *, now: int) -> list[CookieChange]:
        """The cookies to delete so the rest fits: expired and unreadable ones, then the oldest."""
        names = [name for name in cookies if self._names.is_transaction(name)]
        born = {name: self._created_at(name, cookies[name], now) for name in names}
        newest_first = sorted(names, key=lambda name: -born[name])
        alive = [name for name in newest_first if now < born[name] + PENDING_SECONDS]
        sizes = accumulate(_size(name, cookies[name]) for name in alive)
        fitting = [name for name, size in zip(alive, sizes, strict=True) if size <= room]
        remaining = fitting[: MAXIMUM_PENDING - 1]
        return [self._change(name, None) for name in names if name not in remaining]

    def _created_at(self, name: str, value: str, now: int) -> int:
        """When the login began; for an unreadable cookie, one login lifetime ago."""
        pending = self._opened(name, value)
        return pending.created_at if pending is not None else now - PENDING_SECONDS + 1

    def _opened(self, name: str, value: str) -> LoginTransaction | None:
        try:
            return self._codec.decode(self._sealer.open(value, name=name))
        except SessionError:
            return None

    def _change(self, name: str, value: str | None) -> CookieChange:
        return CookieChange(
            name=name,
            value=value,
            max_age=PENDING_SECONDS,
            same_site=self._same_site,
            secure=self._names.secure,
        )


def _size(name: str, value: str) -> int:
    """Its bytes in the Cookie header, with "=" and "; "."""
    return len(name) + len(value) + 3
