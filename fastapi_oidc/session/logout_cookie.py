"""The cookie of a pending logout: the `state` to check and the path after the provider."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, ValidationError

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.cookies import PENDING_SECONDS, CookieChange, CookieNames
from fastapi_oidc.session.model import Frozen
from fastapi_oidc.session.sealing import Sealer


class PendingLogout(Frozen):
    """The `state` of a logout request (RP-Initiated Logout 1.0 2) and the path to return to."""

    state: str = Field(repr=False)
    return_to: str
    created_at: int


class LogoutCookie:
    """Writes and reads the cookie of one pending logout for PENDING_SECONDS."""

    def __init__(self, sealer: Sealer, names: CookieNames) -> None:
        self._sealer, self._names = sealer, names

    def begun(self, pending: PendingLogout) -> CookieChange:
        """Set the cookie to `pending`; it replaces an earlier logout."""
        plaintext = pending.model_dump_json().encode()
        return self._change(self._sealer.seal(plaintext, name=self._names.logout))

    def find(self, cookies: Mapping[str, str], *, now: int) -> PendingLogout | None:
        """The pending logout; None when it is missing, unreadable or too old."""
        try:
            plaintext = self._sealer.open(
                cookies.get(self._names.logout, ""), name=self._names.logout
            )
            pending = PendingLogout.model_validate_json(plaintext)
        except (SessionError, ValidationError):
            return None
        return pending if now < pending.created_at + PENDING_SECONDS else None

    def ended(self) -> CookieChange:
        """Delete the cookie."""
        return self._change(None)

    def _change(self, value: str | None) -> CookieChange:
        return CookieChange(
            name=self._names.logout, value=value, max_age=PENDING_SECONDS, secure=self._names.secure
        )
