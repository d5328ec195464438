"""Proof Key for Code Exchange, method S256 alone (RFC 7636)."""

from __future__ import annotations

import base64
import hashlib
import re

CODE_CHALLENGE_METHOD = "S256"

_CODE_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")


def code_challenge(code_verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636 4.2).

    Raises ValueError when the verifier is not 43 to 128 unreserved characters (4.1).
    """
    if not _CODE_VERIFIER.fullmatch(code_verifier):
        raise ValueError("a code_verifier has 43 to 128 unreserved characters (RFC 7636 4.1)")
    digest = hashlib.sha256(code_verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
