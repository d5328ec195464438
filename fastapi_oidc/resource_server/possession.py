"""Proofs that the sender has a bound token's key or certificate (RFC 9449, RFC 8705)."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from typing import Final
from urllib.parse import unquote

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.dpop import PROOF_WINDOW, Proof
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.session.cells import Cells

_ARMOUR: Final = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----")


class Proofs:
    """Accepts each DPoP proof once (RFC 9449 11.1) across the processes that share `cells`."""

    def __init__(self, cells: Cells, clock: Clock) -> None:
        self._cells, self._clock = cells, clock

    async def require_first_use(self, proof: Proof) -> None:
        """Raises ProtocolViolation (dpop.replayed), or SessionError when the store is down."""
        name = hashlib.sha256(f"{proof.thumbprint} {proof.jti}".encode()).hexdigest()
        # A proof is accepted from one window before its time to one window after it.
        expires_at = self._clock.now() + 2 * PROOF_WINDOW + 1
        if not await self._cells.claim(f"dpop:{name}", expires_at=expires_at):
            raise ProtocolViolation(Code.DPOP_REPLAYED, "this proof was used before")


def require_certificate(header: str | None, thumbprint: str) -> None:
    """Require the certificate to which the token is bound (RFC 8705 3).

    `header` is the client's certificate as the front server sends it: base64 between colons (RFC
    9440), or PEM, which may be percent-encoded. Raises ProtocolViolation
    (access_token.certificate).
    """
    if header is None:
        raise _refused("the token is bound to a certificate, and the request has none")
    if base64url.encode(hashlib.sha256(_der(header)).digest()) != thumbprint:
        raise _refused("the token is bound to another certificate")


def _der(header: str) -> bytes:
    text = unquote(header)
    for line in _ARMOUR:
        text = text.replace(line, "")
    try:
        return b64decode("".join(text.strip().strip(":").split()), validate=True)
    except ValueError:
        raise _refused("the header has no certificate") from None


def _refused(explanation: str) -> ProtocolViolation:
    return ProtocolViolation(Code.ACCESS_TOKEN_CERTIFICATE, explanation)
