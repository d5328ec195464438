"""The session cookie of an application with a session store: a reference to the row."""

from __future__ import annotations

import hashlib
import json
from typing import Final

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.copies import CookieForm, Copy
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.revocations import keys_of
from fastapi_oidc.session.sealing import DecryptionCache, Sealer

SECRET_BYTES: Final = 32


class ReferenceCookie(CookieForm[Identity]):
    """The sealed id of the session and its secret.

    The row has only a digest of the 256 random bits of the secret: neither the store's content nor
    the id, which is in logs, is enough to make a cookie.
    """

    def __init__(self, sealer: Sealer, names: CookieNames, *, clock: Clock | None = None) -> None:
        self._sealer, self._name = sealer, names.session
        self._copies = DecryptionCache(self._read, clock=clock or Clock())

    def open(self, value: str) -> Copy[Identity]:
        """See `CookieForm`."""
        return self._copies.open(value)

    def seal(
        self, session: OIDCSession[Identity], content: bytes, epoch: int, secret: bytes
    ) -> str:
        """See `CookieForm`."""
        head = json.dumps([session.id, keys_of(session), epoch, session.last_end])
        return self._sealer.seal(secret + head.encode(), name=self._name)

    def leads_to(self, copy: Copy[Identity], session: OIDCSession[Identity], epoch: int) -> bool:
        """See `CookieForm`. The keys change with the `sid`."""
        return copy.epoch == epoch and copy.keys == keys_of(session)

    def _read(self, value: str) -> tuple[Copy[Identity], int]:
        plaintext = self._sealer.open(value, name=self._name)
        secret, head = plaintext[:SECRET_BYTES], plaintext[SECRET_BYTES:]
        try:
            id, keys, epoch, expires_at = json.loads(head)
            copy: Copy[Identity] = Copy(id, tuple(keys), epoch, expires_at, secret=secret)
        except (ValueError, TypeError):
            raise SessionError(Code.SESSION_MALFORMED, "not a reference") from None
        return copy, len(value) + len(plaintext)


def digest_of(secret: bytes) -> str:
    """The digest of a cookie's secret, as the row has it."""
    return hashlib.sha256(secret).hexdigest()
