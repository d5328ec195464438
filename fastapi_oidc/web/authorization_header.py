"""Detects access tokens in requests (RFC 6750 2.1, RFC 9449 7.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastapi_oidc.protocol.dpop import Scheme

_SCHEMES: Final[dict[bytes, Scheme]] = {b"bearer": "Bearer", b"dpop": "DPoP"}


def token_scheme_in(headers: Iterable[tuple[bytes, bytes]]) -> Scheme | None:
    """The scheme of the first Authorization header that has a token, well-formed or not."""
    for name, line in headers:
        if name == b"authorization":
            scheme = _SCHEMES.get(line.partition(b" ")[0].lower())
            if scheme is not None:
                return scheme
    return None
