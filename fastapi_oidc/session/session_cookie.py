"""A whole session in one cookie: sealed, deflated when it must be, never over the limit."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Generic

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.codec import SessionCodec, SessionReader
from fastapi_oidc.session.cookies import CookieChange, CookieNames
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.opened_tokens import closed, opened
from fastapi_oidc.session.opener import Opener
from fastapi_oidc.session.sealing import Sealer, sealed_length

DEFAULT_MAX_COOKIE_SIZE = 3800
MAXIMUM_PLAINTEXT_BYTES = 65_536
# These begin what is deflated; what is not begins as the codec has it.
_DEFLATED = b"d"
_DEFLATED_OPENED = b"j"
_RAW_DEFLATE = -zlib.MAX_WBITS
_TOO_LARGE = (
    "the session cookie needs {size} bytes and may have {limit}; its parts: {parts}. Keep sessions "
    "in a session_store, drop what you do not need in before_session_persist, or raise "
    "max_cookie_size (browsers refuse more than 4096)"
)


class CookieTooLarge(SessionError):
    """The session does not fit `limit` bytes of cookie name and value.

    `size` is what it would take, deflated; `parts` has the JSON bytes of each part of the session.
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
        self._readers = Opener(self._reader, clock=clock or Clock())

    def seal(self, session: OIDCSession[Identity]) -> str:
        """The cookie's value; raises CookieTooLarge."""
        encoded = self._codec.encode(session)
        size = 0
        for plaintext in self._forms(session, encoded):
            size = self._size(plaintext)
            if size <= self._limit and len(encoded) <= MAXIMUM_PLAINTEXT_BYTES:
                return self._sealer.seal(plaintext, name=self._name)
        raise CookieTooLarge(size, self._limit, _parts(encoded))

    def open(self, value: str) -> OIDCSession[Identity]:
        """The session; raises SessionError (session.seal_broken, session.malformed)."""
        return self._readers.open(value)()

    def _reader(self, value: str) -> tuple[SessionReader[Identity], int]:
        plaintext = self._plaintext(value)
        return SessionReader(self._codec, plaintext), len(value) + len(plaintext)

    def _plaintext(self, value: str) -> bytes:
        """As the codec wrote it."""
        plaintext = self._sealer.open(value, name=self._name)
        if plaintext.startswith(_DEFLATED):
            return _inflated(plaintext[len(_DEFLATED) :])
        if plaintext.startswith(_DEFLATED_OPENED):
            return closed(_inflated(plaintext[len(_DEFLATED_OPENED) :]))
        return plaintext

    def _forms(self, session: OIDCSession[Identity], encoded: bytes) -> Iterator[bytes]:
        """Ways to write the session, the fastest to read first, the shortest last."""
        yield encoded
        short = self._codec.encode_short(session) or encoded
        yield short
        yield _DEFLATED + _deflated(short)
        yield _DEFLATED_OPENED + _deflated(opened(encoded))

    def _size(self, plaintext: bytes) -> int:
        return len(self._name) + sealed_length(len(plaintext))


def session_cookie_change(names: CookieNames, value: str | None, *, max_age: int) -> CookieChange:
    """Sets the session cookie for `max_age` seconds, or clears it when `value` is None."""
    return CookieChange(name=names.session, value=value, max_age=max_age, secure=names.secure)


def _deflated(content: bytes) -> bytes:
    return zlib.compress(content, level=9, wbits=_RAW_DEFLATE)


def _inflated(content: bytes) -> bytes:
    """At most MAXIMUM_PLAINTEXT_BYTES; a stream that would give more is refused unread."""
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
