"""A logout that went on to the provider: what to check and where to go when the browser is back."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, ValidationError

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.cookies import CookieChange, CookieNames
from fastapi_oidc.session.model import Frozen
from fastapi_oidc.session.sealing import Sealer

LIFETIME = 600


class PendingLogout(Frozen):
    """The `state` sent with a logout (RP-Initiated Logout 1.0 2) and the path to go on with."""

    state: str = Field(repr=False)
    return_to: str
    created_at: int


class LogoutCookie:
    """Remembers one logout for ten minutes."""

    def __init__(self, sealer: Sealer, names: CookieNames) -> None:
        self._sealer, self._names = sealer, names

    def begun(self, pending: PendingLogout) -> CookieChange:
        """Keeps `pending`, in place of an earlier logout."""
        plaintext = pending.model_dump_json().encode()
        return self._change(self._sealer.seal(plaintext, name=self._names.logout))

    def find(self, cookies: Mapping[str, str], *, now: int) -> PendingLogout | None:
        """The pending logout; None when it is missing, broken or too old."""
        try:
            plaintext = self._sealer.open(
                cookies.get(self._names.logout, ""), name=self._names.logout
            )
            pending = PendingLogout.model_validate_json(plaintext)
        except (SessionError, ValidationError):
            return None
        return pending if now < pending.created_at + LIFETIME else None

    def ended(self) -> CookieChange:
        """Forgets it."""
        return self._change(None)

    def _change(self, value: str | None) -> CookieChange:
        return CookieChange(
            name=self._names.logout, value=value, max_age=LIFETIME, secure=self._names.secure
        )
