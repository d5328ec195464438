"""Sessions in cookies: sealed, deflated if necessary, never larger than the limit."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.codec import SessionCodec, SessionReader, pack_jwts, unpack_jwts
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.copies import CookieForm, Copy
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.revocations import keys_of
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


class SessionCookie(CookieForm[Identity]):
    """The sealed session: the cookie of an application without a session store."""

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

    def seal(
        self, session: OIDCSession[Identity], content: bytes, epoch: int, secret: bytes
    ) -> str:
        """See `CookieForm`."""
        size = 0
        for plaintext in _forms(content):
            size = len(self._name) + sealed_length(len(plaintext))
            if size <= self._limit and len(content) <= MAXIMUM_PLAINTEXT_BYTES:
                return self._sealer.seal(plaintext, name=self._name)
        raise CookieTooLarge(size, self._limit, _parts(content))

    def open(self, value: str) -> Copy[Identity]:
        """See `CookieForm`."""
        session = self._readers.open(value)()
        generation, ends = session.generation, session.last_end
        return Copy(session.id, keys_of(session), generation, ends, session)

    def leads_to(self, copy: Copy[Identity], session: OIDCSession[Identity], epoch: int) -> bool:
        """See `CookieForm`. Each state of the session needs another cookie."""
        before = copy.session
        return before is not None and (before.generation, before.last_seen_at or 0) == (
            session.generation,
            session.last_seen_at or 0,
        )

    def _reader(self, value: str) -> tuple[SessionReader[Identity], int]:
        plaintext = self._sealer.open(value, name=self._name)
        if plaintext.startswith(_DEFLATED):
            plaintext = _inflated(plaintext[len(_DEFLATED) :])
        elif plaintext.startswith(_DEFLATED_UNPACKED):
            plaintext = pack_jwts(_inflated(plaintext[len(_DEFLATED_UNPACKED) :]))
        return SessionReader(self._codec, plaintext), len(value) + len(plaintext)


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
