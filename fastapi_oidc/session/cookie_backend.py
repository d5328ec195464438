"""Sessions in cookies: sealed, deflated if necessary, never larger than the limit."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Generic

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.backend import (
    CookieHint,
    Lookup,
    SessionBackend,
    StoredSession,
    session_cookie,
)
from fastapi_oidc.session.codec import SessionCodec, SessionReader, pack_jwts, unpack_jwts
from fastapi_oidc.session.cookies import CookieChange, CookieNames
from fastapi_oidc.session.model import Identity, OIDCSession, PreviousSession
from fastapi_oidc.session.revocations import RevocationStore
from fastapi_oidc.session.sealing import DecryptionCache, Sealer, sealed_length

DEFAULT_MAX_COOKIE_SIZE: Final = 3800
MAXIMUM_PLAINTEXT_BYTES: Final = 65_536
# The first byte of a deflated session; one that is not deflated begins like JSON.
_DEFLATED, _DEFLATED_UNPACKED = b"d", b"j"
_RAW_DEFLATE: Final = -zlib.MAX_WBITS
_TOO_LARGE: Final = (
    "the session cookie needs {size} bytes and may have {limit}; its parts: {parts}. Use "
    "a session_store, remove unneeded data in before_session_persist, or raise "
    "max_cookie_size (browsers refuse more than 4096)"
)


class CookieTooLarge(SessionError):
    """The session does not fit into `limit` bytes of cookie name and value.

    `size` is the required number of bytes, deflated. `parts` has the JSON size of each part of the
    session, in bytes.
    """

    def __init__(self, size: int, limit: int, parts: Mapping[str, int]) -> None:
        largest = sorted(parts.items(), key=lambda part: -part[1])
        listed = ", ".join(f"{name} {length}" for name, length in largest)
        explanation = _TOO_LARGE.format(size=size, limit=limit, parts=listed)
        super().__init__(Code.SESSION_COOKIE_TOO_LARGE, explanation)
        self.size, self.limit, self.parts = size, limit, parts


class SessionCookie(Generic[Identity]):
    """Writes and reads the session cookie of an application without a session store."""

    def __init__(
        self,
        codec: SessionCodec[Identity],
        sealer: Sealer,
        names: CookieNames,
        *,
        max_cookie_size: int = DEFAULT_MAX_COOKIE_SIZE,
        clock: Clock | None = None,
    ) -> None:
        self._codec, self._sealer, self._name = codec, sealer, names.session
        self._limit = max_cookie_size
        self._readers = DecryptionCache(self._reader, clock=clock or Clock())

    def seal(self, session: OIDCSession[Identity]) -> str:
        """The cookie's value; raises CookieTooLarge."""
        encoded = self._codec.encode(session)
        size = 0
        for plaintext in _forms(encoded):
            size = len(self._name) + sealed_length(len(plaintext))
            if size <= self._limit and len(encoded) <= MAXIMUM_PLAINTEXT_BYTES:
                return self._sealer.seal(plaintext, name=self._name)
        raise CookieTooLarge(size, self._limit, _parts(encoded))

    def open(self, value: str) -> OIDCSession[Identity]:
        """The session; raises SessionError (session.seal_broken, session.malformed)."""
        return self._readers.open(value)()

    def _reader(self, value: str) -> tuple[SessionReader[Identity], int]:
        plaintext = self._sealer.open(value, name=self._name)
        if plaintext.startswith(_DEFLATED):
            plaintext = _inflated(plaintext[len(_DEFLATED) :])
        elif plaintext.startswith(_DEFLATED_UNPACKED):
            plaintext = pack_jwts(_inflated(plaintext[len(_DEFLATED_UNPACKED) :]))
        return SessionReader(self._codec, plaintext), len(value) + len(plaintext)


class CookieBackend(SessionBackend[Identity]):
    """Sessions in cookies; the server stores revocation records only."""

    records_last_use = True

    def __init__(
        self,
        cookie: SessionCookie[Identity],
        names: CookieNames,
        *,
        clock: Clock,
        revocations: RevocationStore | None = None,
    ) -> None:
        super().__init__(names, clock, revocations, cookie.open)
        self._cookie = cookie
        if revocations is not None and revocations.is_in_memory:
            self.in_memory = ("back_channel_logout_store",)

    async def lookup(self, cookies: Mapping[str, str]) -> Lookup[Identity] | None:
        """The session sealed in the cookie."""
        stored = self._opened(cookies)
        return None if stored is None else await self.reread(stored)

    def hint(
        self, cookies: Mapping[str, str], issuer: str, client_id: str
    ) -> CookieHint[Identity] | None:
        """The session sealed in the cookie."""
        stored = self._opened(cookies)
        return None if stored is None else CookieHint(self.previous(stored), stored)

    async def lookup_by_id(self, session_id: str) -> Lookup[Identity] | None:
        """Raises ConfigurationError: sessions in cookies cannot be found or listed."""
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING, "only a session_store can find a session by its id"
        )

    async def reread(self, stored: StoredSession[Identity]) -> Lookup[Identity]:
        """`stored` itself, which cannot have changed, and whether it has ended."""
        return Lookup(stored, await self.ended_by(stored.session))

    def place(self, session: OIDCSession[Identity]) -> StoredSession[Identity]:
        """The session without a reference: its place is the cookie."""
        return StoredSession(session)

    async def save(self, stored: StoredSession[Identity]) -> None:
        """The response sets the cookie."""

    async def replace(self, stored: StoredSession[Identity]) -> bool:
        """The response sets the cookie, unless a revocation record ends the session."""
        return await self.ended_by(stored.session) is None

    async def touch(self, stored: StoredSession[Identity], at: int) -> None:
        """The response sets the cookie."""

    def previous(self, stored: StoredSession[Identity]) -> PreviousSession:
        """The session's names and end."""
        return PreviousSession.of(stored.session)

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str
    ) -> Sequence[OIDCSession[Identity]]:
        """Raises ConfigurationError: sessions in cookies cannot be found or listed."""
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING, "only a session_store can list sessions"
        )

    def cookies(self, stored: StoredSession[Identity], now: int) -> tuple[CookieChange, ...]:
        """The sealed session, until its absolute end."""
        value = self._cookie.seal(stored.session)
        max_age = max(0, stored.session.expires_at - now)
        return (session_cookie(self._names, value, max_age=max_age),)

    def is_cookie_current(self, stored: StoredSession[Identity]) -> bool:
        """False: each state of the session needs another cookie."""
        return False

    def _opened(self, cookies: Mapping[str, str]) -> StoredSession[Identity] | None:
        value = cookies.get(self._names.session)
        if not value:
            return None
        try:
            return StoredSession(self._cookie.open(value))
        except SessionError:
            return None


def _forms(encoded: bytes) -> Iterator[bytes]:
    """The encodings of the session: the fastest to read first, the shortest last."""
    yield encoded
    yield _DEFLATED + _deflated(encoded)
    yield _DEFLATED_UNPACKED + _deflated(unpack_jwts(encoded))


def _deflated(content: bytes) -> bytes:
    return zlib.compress(content, level=9, wbits=_RAW_DEFLATE)


def _inflated(content: bytes) -> bytes:
    """The content, at most MAXIMUM_PLAINTEXT_BYTES; a longer one is refused."""
    inflater = zlib.decompressobj(wbits=_RAW_DEFLATE)
    try:
        inflated = inflater.decompress(content, MAXIMUM_PLAINTEXT_BYTES)
    except zlib.error:
        raise SessionError(Code.SESSION_MALFORMED, "not a deflate stream") from None
    if not inflater.eof or inflater.unused_data:
        raise SessionError(Code.SESSION_MALFORMED, "the deflate stream has another length")
    return inflated


def _parts(encoded: bytes) -> dict[str, int]:
    members = json.loads(encoded)
    tokens = members.pop("tokens")
    parts = {**members, **{f"tokens.{name}": value for name, value in tokens.items()}}
    return {name: len(json.dumps(value).encode()) for name, value in parts.items()}
