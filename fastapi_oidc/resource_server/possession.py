"""Proofs that the sender has a bound token's key or certificate (RFC 9449, RFC 8705)."""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64decode
from typing import Final
from urllib.parse import unquote

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.dpop import PROOF_WINDOW, Proof
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.session.outage import unavailable_as
from fastapi_oidc.session.store import Cell, Store

_ARMOUR: Final = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----")


class Proofs:
    """Accepts each DPoP proof once (RFC 9449 11.1) across the processes that share `store`.

    `name`, the instance's, is in front of every key. The store must not evict a proof.
    """

    def __init__(self, store: Store, name: str, clock: Clock) -> None:
        self._store, self._name, self._clock = store, name, clock

    async def require_first_use(self, proof: Proof) -> None:
        """Raises ProtocolViolation (dpop.replayed), or SessionError when the store is down."""
        name = hashlib.sha256(f"{proof.thumbprint} {proof.jti}".encode()).hexdigest()
        # A proof is accepted from one window before its time to one window after it.
        mine = Cell(secrets.token_bytes(9), self._clock.now() + 2 * PROOF_WINDOW + 1)
        with unavailable_as():
            value = await self._store.move(
                f"{self._name}:dpop:{name}", lambda value, _: None if value else mine, known=b""
            )
        if value != mine.value:
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
