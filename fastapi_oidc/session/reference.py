"""The session cookie of an application with a session store: a reference and nothing else."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass, field

from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.sealing import Sealer


@dataclass(frozen=True, slots=True)
class SessionReference:
    """256 random bits that name a row of the session store; a new one at every login."""

    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> SessionReference:
        """A reference nobody can guess."""
        return cls(os.urandom(32))

    @property
    def store_id(self) -> str:
        """What the store sees: a SHA-256, from which nobody who reads the store can go back."""
        return base64.urlsafe_b64encode(hashlib.sha256(self.secret).digest()).decode().rstrip("=")


class ReferenceCookie:
    """Writes and reads the cookie that holds a reference."""

    def __init__(self, sealer: Sealer, names: CookieNames) -> None:
        self._sealer, self._names = sealer, names

    def seal(self, reference: SessionReference) -> str:
        """The cookie's value."""
        return self._sealer.seal(reference.secret, name=self._names.session)

    def open(self, value: str) -> SessionReference:
        """The reference; raises SessionError (session.seal_broken)."""
        return SessionReference(self._sealer.open(value, name=self._names.session))
