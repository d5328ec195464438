"""The session cookie: the sealed session, or a reference to it."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import ValidationError
from pydantic.errors import PydanticUserError

from fastapi_oidc.errors import Code, SessionError, misconfigured
from fastapi_oidc.protocol.encoding import decode_base64url, encode_base64url
from fastapi_oidc.session.cookies import CookieNames, Sealer, sealed_length
from fastapi_oidc.session.model import SEALING, AnySession, OIDCSession
from fastapi_oidc.session.revocations import keys_of

_JWT_BEGINS, _JWT_ENDS = b"\x01", b"\x00"
_JSON_PART: Final = re.compile(rb'(?<=[".])eyJ[A-Za-z0-9_-]+')  # eyJ is {" in base64
_UNPACKED_PART: Final = re.compile(rb"\x01([^\x00]*)\x00")


class SessionCodec:
    """Encodes and decodes sessions with an identity of `identity_type`.

    Raises ConfigurationError (configuration.invalid) when pydantic cannot read that type.
    """

    def __init__(self, identity_type: type[Any]) -> None:
        self.identity_type = identity_type
        try:
            kind = OIDCSession[identity_type]  # type: ignore[valid-type]
            self._read: Callable[[bytes], AnySession] = kind.__pydantic_validator__.validate_json
        except PydanticUserError as error:
            raise misconfigured(
                f"pydantic cannot read an identity of {identity_type!r}: {error.message}"
            ) from None

    def encode(self, session: AnySession) -> bytes:
        """The session with its tokens, as JSON that `decode` can read.

        Raises ConfigurationError (configuration.invalid) when the identity would be read as
        something else: it has another type, a secret or an excluded field.
        """
        with suppress(ValueError, SessionError):
            encoded = session.model_dump_json(context=SEALING).encode()
            if self.decode(encoded).identity == session.identity:
                return encoded
        raise misconfigured(
            f"the session cannot be stored: its identity, a {type(session.identity).__name__}, "
            f"would be read back from JSON as something else (identity_type is "
            f"{self.identity_type!r})"
        )

    def decode(self, encoded: bytes) -> AnySession:
        """The session that `encode` wrote; raises SessionError (session.malformed)."""
        try:
            return self._read(encoded)
        except ValidationError:  # which may quote it
            explanation = "another release, or one with another identity_type, wrote the session"
            raise SessionError(Code.SESSION_MALFORMED, explanation) from None


def unpack_jwts(encoded: bytes) -> bytes:
    """JSON with each JWT part replaced by the JSON that it encodes, which deflates better.

    base64 hides from a compressor the text that several tokens share. The bytes around an unpacked
    part occur neither in JSON nor in base64.
    """
    return _JSON_PART.sub(_unpacked, encoded)


def pack_jwts(text: bytes) -> bytes:
    """Undo `unpack_jwts`."""
    return _UNPACKED_PART.sub(lambda found: encode_base64url(found[1]).encode(), text)


def _unpacked(found: re.Match[bytes]) -> bytes:
    part = found[0]
    try:
        content = decode_base64url(part.decode())
    except ValueError:
        return part
    return part if _JWT_ENDS in content else _JWT_BEGINS + content + _JWT_ENDS


DEFAULT_MAX_COOKIE_SIZE: Final = 3800
MAXIMUM_PLAINTEXT_BYTES: Final = 65_536
SECRET_BYTES: Final = 32

CACHED_COOKIES: Final = 1000
"""Maximum number of cookies whose content is cached; the one unused for longest is evicted."""

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


class Copy(NamedTuple):
    """The content of a session cookie. Its session's row says whether it still counts.

    `keys` are those of the session's revocations when the cookie was set, so that they are read
    together with the row. `epoch` is compared with the row's. `expires_at` is the absolute end, in
    seconds since the epoch. `session` is None where the row has it; then `secret` proves that the
    row is meant.
    """

    id: str
    keys: tuple[str, ...]
    epoch: int
    expires_at: int
    session: AnySession | None = None
    secret: bytes = b""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Copy(id={self.id!r}, epoch={self.epoch})"


class SessionCookie:
    """The sealed session: the cookie of an application without a session store."""

    def __init__(
        self,
        codec: SessionCodec,
        sealer: Sealer,
        names: CookieNames,
        *,
        max_cookie_size: int = DEFAULT_MAX_COOKIE_SIZE,
    ) -> None:
        self._codec, self._sealer, self._name = codec, sealer, names.session
        self._limit = max_cookie_size
        # A page makes its requests with one cookie. What a session may do is checked each time.
        self._content_of = lru_cache(CACHED_COOKIES)(self._opened)

    def seal(self, session: AnySession, content: bytes, epoch: int, secret: bytes) -> str:
        """The value for `session`, which `content` encodes; raises CookieTooLarge."""
        plaintext = zlib.compress(unpack_jwts(content), level=9, wbits=_RAW_DEFLATE)
        size = len(self._name) + sealed_length(len(plaintext))
        if size > self._limit or len(content) > MAXIMUM_PLAINTEXT_BYTES:
            raise CookieTooLarge(size, self._limit, _parts(content))
        return self._sealer.seal(plaintext, name=self._name)

    def open(self, value: str) -> Copy:
        """The content; raises SessionError (session.seal_broken, session.malformed)."""
        session = self._codec.decode(self._content_of(value))
        return Copy(session.id, keys_of(session), session.generation, session.last_end, session)

    def leads_to(self, copy: Copy, session: AnySession, epoch: int) -> bool:
        """Whether a browser with `copy` needs no other cookie: each state needs another one."""
        made = (session.generation, session.last_seen_at)
        before = copy.session
        return before is not None and (before.generation, before.last_seen_at) == made

    def _opened(self, value: str) -> bytes:
        return pack_jwts(_inflated(self._sealer.open(value, name=self._name)))


class ReferenceCookie:
    """The sealed id of the session and its secret.

    The row has only a digest of the 256 random bits of the secret: neither the store's content nor
    the id, which is in logs, is enough to make a cookie.
    """

    def __init__(self, sealer: Sealer, names: CookieNames) -> None:
        self._sealer, self._name = sealer, names.session

    def open(self, value: str) -> Copy:
        """Like `SessionCookie.open`."""
        plaintext = self._sealer.open(value, name=self._name)
        secret, head = plaintext[:SECRET_BYTES], plaintext[SECRET_BYTES:]
        try:
            id, keys, epoch, expires_at = json.loads(head)
            return Copy(id, tuple(keys), epoch, expires_at, secret=secret)
        except (ValueError, TypeError):
            raise SessionError(Code.SESSION_MALFORMED, "not a reference") from None

    def seal(self, session: AnySession, content: bytes, epoch: int, secret: bytes) -> str:
        """Like `SessionCookie.seal`."""
        head = json.dumps([session.id, keys_of(session), epoch, session.last_end])
        return self._sealer.seal(secret + head.encode(), name=self._name)

    def leads_to(self, copy: Copy, session: AnySession, epoch: int) -> bool:
        """Like `SessionCookie.leads_to`. The keys change with the `sid`."""
        return copy.epoch == epoch and copy.keys == keys_of(session)


CookieForm: TypeAlias = SessionCookie | ReferenceCookie


def digest_of(secret: bytes) -> str:
    """The digest of a cookie's secret, as the row has it."""
    return hashlib.sha256(secret).hexdigest()


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
