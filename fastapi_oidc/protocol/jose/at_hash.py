"""The hash that binds an access token to an ID token (OpenID Connect Core 3.1.3.6)."""

from __future__ import annotations

import hashlib

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS
from fastapi_oidc.protocol.jose.base64url import encode


def access_token_hash(access_token: str, algorithm: str) -> str:
    """The `at_hash` of `access_token` in an ID token signed with `algorithm`.

    Raises ProtocolViolation (id_token.access_token_hash) for an unknown algorithm: what cannot be
    checked is refused.
    """
    row = ALGORITHMS.get(algorithm)
    if row is None:
        raise ProtocolViolation(Code.ID_TOKEN_ACCESS_TOKEN_HASH, "no hash for this algorithm")
    digest = hashlib.new(row.hash_name, access_token.encode()).digest()
    return encode(digest[: len(digest) // 2])
