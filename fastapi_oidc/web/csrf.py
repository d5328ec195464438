"""Tokens that prove that a request is from a page of this application (RFC 6750 5.3, BFF 6.1)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256

from itsdangerous import Signer

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.protocol.encoding import decode_base64url, encode_base64url
from fastapi_oidc.session.model import AnySession

CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf_token"


class CSRFTokens:
    """Makes and checks the CSRF tokens of sessions. A token is valid as long as its session.

    `keys` are the newest first: the newest signs, all of them verify. A session has one signature.
    Each token is that signature under a new random mask, so a page's compressed length reveals
    nothing about the next token (BREACH).
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._signer = Signer(list(reversed(keys)), "fastapi_oidc.csrf", digest_method=sha256)

    def token(self, session: AnySession) -> str:
        """A token for one response."""
        signature = decode_base64url(self._signer.get_signature(session.id).decode())
        mask = os.urandom(len(signature))
        return encode_base64url(mask + _masked(signature, mask))

    def require(self, session: AnySession, token: str | None) -> None:
        """Raises SessionError (session.csrf) unless `token` is the session's own."""
        signature = _signature_in(token or "")
        if not self._signer.verify_signature(session.id.encode(), signature.encode()):
            explanation = (
                f"the request has no CSRF token of this session, neither in the header "
                f"{CSRF_HEADER} nor in the form field {CSRF_FIELD}"
            )
            raise SessionError(Code.SESSION_CSRF, explanation)


def _signature_in(token: str) -> str:
    """The signature in a masked token; "" if the token has another form."""
    try:
        masked = decode_base64url(token)
    except ValueError:
        return ""
    mask, signature = masked[: len(masked) // 2], masked[len(masked) // 2 :]
    return encode_base64url(_masked(signature, mask)) if len(mask) == len(signature) else ""


def _masked(signature: bytes, mask: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(signature, mask, strict=True))
