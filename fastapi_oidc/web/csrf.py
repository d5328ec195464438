"""Tokens that prove a request came from a page of this application (RFC 6750 5.3, BFF 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from itsdangerous import Signer

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.model import Identity, OIDCSession

CSRF_HEADER = "X-CSRF-Token"


class CSRFTokens:
    """Makes and checks the token of each session; a token lives as long as its session.

    `keys` newest first: the newest signs, all of them verify.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._signer = Signer(list(reversed(keys)), "fastapi_oidc.csrf", digest_method=sha256)

    def token(self, session: OIDCSession[Identity]) -> str:
        """The token to put into the session's pages."""
        return self._signer.get_signature(session.id).decode()

    def require(self, session: OIDCSession[Identity], token: str | None) -> None:
        """Raises SessionError (session.csrf) unless `token` is the session's own."""
        if not token or not self._signer.verify_signature(
            session.id.encode(), token.encode(errors="replace")
        ):
            raise SessionError(Code.SESSION_CSRF, "no CSRF token of this session")
