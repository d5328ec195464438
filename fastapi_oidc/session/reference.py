"""The reference cookie: the session cookie of an application with a session store."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass, field
from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.sealing import DecryptionCache, Sealer

_SECRET_BYTES: Final = 32
_DIGEST_BYTES: Final = 32
_END_BYTES: Final = 8


@dataclass(frozen=True)
class SessionReference:
    """The name of a row in the session store.

    The store sees `store_id`, the SHA-256 of `secret`: the secret cannot be derived from the
    store's content. The 256 random bits of `secret` are for the cookie only; a session that was
    found by its id has none.

    `digests` name the revocation records that could end the session, so the row and the records can
    be read in one step. `session_id` and `expires_at` (seconds since the epoch) are enough to end
    the session while its store is down.
    """

    store_id: str
    secret: bytes | None = field(default=None, repr=False, compare=False)
    digests: tuple[str, ...] = field(default=(), repr=False, compare=False)
    session_id: str = field(default="", compare=False)
    expires_at: int = field(default=0, compare=False)

    @classmethod
    def new(cls) -> SessionReference:
        """A new, unguessable reference; each login gets one."""
        return cls.of(os.urandom(_SECRET_BYTES))

    @classmethod
    def of(
        cls,
        secret: bytes,
        digests: tuple[str, ...] = (),
        session_id: str = "",
        expires_at: int = 0,
    ) -> SessionReference:
        """The reference with the `secret` of a cookie."""
        digest = base64.urlsafe_b64encode(hashlib.sha256(secret).digest())
        return cls(digest.decode().rstrip("="), secret, digests, session_id, expires_at)


class ReferenceCookie:
    """Writes and reads the reference cookie."""

    def __init__(self, sealer: Sealer, names: CookieNames, *, clock: Clock | None = None) -> None:
        self._sealer, self._names = sealer, names
        self._references = DecryptionCache(self._reference, clock=clock or Clock())

    def seal(self, reference: SessionReference) -> str:
        """The cookie's value."""
        digests = b"".join(map(bytes.fromhex, reference.digests))
        head = bytes([len(reference.digests)]) + reference.expires_at.to_bytes(_END_BYTES)
        plaintext = head + (reference.secret or b"") + digests + reference.session_id.encode()
        return self._sealer.seal(plaintext, name=self._names.session)

    def open(self, value: str) -> SessionReference:
        """The reference; raises SessionError (session.seal_broken, session.malformed)."""
        return self._references.open(value)

    def _reference(self, value: str) -> tuple[SessionReference, int]:
        plaintext = self._sealer.open(value, name=self._names.session)
        count = int.from_bytes(plaintext[:1])
        expires_at = int.from_bytes(plaintext[1 : 1 + _END_BYTES])
        secret_end = 1 + _END_BYTES + _SECRET_BYTES
        end = secret_end + count * _DIGEST_BYTES
        if len(plaintext) <= end:
            raise SessionError(Code.SESSION_MALFORMED, "the reference is too short")
        digests, width = plaintext[secret_end:end].hex(), 2 * _DIGEST_BYTES
        reference = SessionReference.of(
            plaintext[1 + _END_BYTES : secret_end],
            tuple([digests[at : at + width] for at in range(0, len(digests), width)]),
            session_id=plaintext[end:].decode(errors="replace"),
            expires_at=expires_at,
        )
        return reference, len(value) + len(plaintext)
