"""Access tokens bound to a key: proofs of its possession, made and accepted (RFC 9449)."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, Self, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec
from pydantic_core import Url

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.claims import require_numeric_date, require_string
from fastapi_oidc.protocol.encoding import Claims, CompactJWS, decode_base64url, encode_base64url
from fastapi_oidc.protocol.jose.keys import ALGORITHMS, JsonWebKey, is_signed_by
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.protocol.refusal import shown

Scheme: TypeAlias = Literal["Bearer", "DPoP"]
"""How a request presents its access token (RFC 6750 2.1, RFC 9449 7.1)."""

PROOF_TYPE: Final = "dpop+jwt"

PROOF_WINDOW: Final = 60
"""Seconds by which the `iat` of a proof may differ from this clock, either way (RFC 9449 11.1)."""

PROOF_ALGORITHM: Final = "ES256"
"""The algorithm of this library's own proofs."""

PROOF_ALGORITHMS: Final = tuple(row.name for row in ALGORITHMS.values() if row.key_type != "oct")
"""Algorithms of accepted proofs: every asymmetric one (RFC 9449 4.2)."""

_CURVE: Final = ec.SECP256R1()
_FIELD_BYTES: Final = 32

_THUMBPRINT_MEMBERS: Final = {
    "EC": ("crv", "kty", "x", "y"),
    "OKP": ("crv", "kty", "x"),
    "RSA": ("e", "kty", "n"),
}


@dataclass(frozen=True)
class DPoPKey:
    """A private key on P-256, which signs proofs with ES256."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        """A random key."""
        return cls(ec.generate_private_key(_CURVE))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The key of `to_text`; raises ValueError for any other text, without quoting it."""
        octets = decode_base64url(text)
        if len(octets) != _FIELD_BYTES:
            raise ValueError("no DPoP key")
        return cls(ec.derive_private_key(int.from_bytes(octets), _CURVE))

    def to_text(self) -> str:
        """The private key in 43 characters: the member `d` of its JWK (RFC 7518 6.2.2.1)."""
        return _coordinate(self.key.private_numbers().private_value)

    @cached_property
    def jwk(self) -> Mapping[str, str]:
        """The public key, as the header of a proof has it (RFC 9449 4.2)."""
        point = self.key.public_key().public_numbers()
        return {"kty": "EC", "crv": "P-256", "x": _coordinate(point.x), "y": _coordinate(point.y)}

    @cached_property
    def thumbprint(self) -> str:
        """The name by which a token is bound to the key, `jkt` (RFC 9449 6.1, RFC 7638)."""
        return jwk_thumbprint(self.jwk)

    def proof(
        self,
        method: str,
        url: str,
        now: int,
        *,
        access_token: str | None = None,
        nonce: str | None = None,
    ) -> str:
        """The `DPoP` header of one request at `now`, in seconds since the epoch (RFC 9449 4.2).

        `access_token` is the token in the request, `nonce` the server's last nonce. Raises
        ValueError for a URL that is not absolute.
        """
        claims: dict[str, object] = {
            "jti": secrets.token_urlsafe(18),
            "htm": method,
            "htu": proof_target(url),
            "iat": now,
        }
        if access_token is not None:
            claims["ath"] = access_token_digest(access_token)
        if nonce is not None:
            claims["nonce"] = nonce
        signer = Signer.of_private_key(self.key, algorithm=PROOF_ALGORITHM)
        return signer.sign(claims, typ=PROOF_TYPE, jwk=self.jwk)


@dataclass(frozen=True, slots=True)
class Proof:
    """An accepted proof. Only `accept_proof` makes instances.

    The caller must refuse a second proof with this `jti` until `iat` + 60 seconds (RFC 9449 11.1).
    """

    jti: str
    thumbprint: str
    iat: int


def accept_proof(
    proof: str,
    *,
    method: str,
    url: str,
    now: int,
    access_token: str | None = None,
    thumbprint: str | None = None,
    nonce: str | None = None,
) -> Proof:
    """Check the only `DPoP` header of a request (RFC 9449 4.3).

    `access_token` is the token in the request and `thumbprint` the key to which it is bound (7.1).
    `nonce` is the nonce that the server requires (8, 9). Raises ProtocolViolation: dpop.malformed,
    dpop.signature, dpop.target, dpop.issued_at, dpop.access_token, dpop.key or dpop.nonce.
    """
    claims, bound = _verified(proof)
    _require_target(claims, method, url)
    issued_at = _require_fresh(claims, now)
    if nonce is not None and claims.get("nonce") != nonce:
        raise ProtocolViolation(Code.DPOP_NONCE, "nonce is not the one this server requires")
    if access_token is not None and claims.get("ath") != access_token_digest(access_token):
        raise ProtocolViolation(Code.DPOP_ACCESS_TOKEN, "ath is not that of the access token")
    if thumbprint is not None and bound != thumbprint:
        raise ProtocolViolation(Code.DPOP_KEY, "the access token is bound to another key")
    return Proof(require_string(claims, "jti", Code.DPOP_MALFORMED), bound, issued_at)


def proof_target(url: str) -> str:
    """`url` as in `htu`: normalized, without query and fragment (4.2, 4.3; RFC 3986 6.2).

    Raises ValueError for one that is not absolute.
    """
    address = Url(url)
    path = (address.path or "").removeprefix("/")
    host, port = address.host or "", address.port
    return str(Url.build(scheme=address.scheme, host=host, port=port, path=path))


def access_token_digest(access_token: str) -> str:
    """`ath`: the SHA-256 digest of an access token (RFC 9449 4.2)."""
    return encode_base64url(hashlib.sha256(access_token.encode()).digest())


def jwk_thumbprint(jwk: Mapping[str, object]) -> str:
    """The SHA-256 thumbprint of a public JWK of the types EC, OKP and RSA (RFC 7638 3)."""
    members = {name: jwk[name] for name in _THUMBPRINT_MEMBERS[str(jwk["kty"])]}
    text = json.dumps(members, separators=(",", ":"), sort_keys=True)
    return encode_base64url(hashlib.sha256(text.encode()).digest())


def _verified(proof: str) -> tuple[Claims, str]:
    """The claims and the thumbprint of the key that signed them (4.3 rules 2 to 7)."""
    try:
        jws = CompactJWS.parse(proof)
        claims = jws.claims()
    except ProtocolViolation as violation:
        raise _malformed(violation.explanation) from None
    alg, jwk = jws.header.alg, jws.header.jwk
    if jws.header.typ != PROOF_TYPE:
        raise _malformed(f"typ is {shown(jws.header.typ)}")
    if alg not in PROOF_ALGORITHMS:
        raise _malformed(f"alg is {shown(alg)}")
    key = JsonWebKey.parse(jwk)
    if key is None or not isinstance(jwk, dict):
        raise _malformed("jwk is not a public key of a supported kind")
    if alg not in key.verifiers or not is_signed_by(key.verifiers[alg], jws):
        raise ProtocolViolation(Code.DPOP_SIGNATURE)
    return claims, jwk_thumbprint(jwk)


def _require_target(claims: Claims, method: str, url: str) -> None:
    """Require the `htm` and `htu` of the request (4.3 rules 8 and 9)."""
    htm = require_string(claims, "htm", Code.DPOP_MALFORMED)
    htu = require_string(claims, "htu", Code.DPOP_MALFORMED)
    if htm != method:
        raise ProtocolViolation(Code.DPOP_TARGET, f"htm is {shown(htm)}, the method {method}")
    try:
        found, target = proof_target(htu), proof_target(url)
    except ValueError:
        raise _malformed("htu is not a URL, or the Host of the request is none") from None
    if found != target:
        explanation = f"htu is {shown(found)}, the URL {shown(target)}"
        raise ProtocolViolation(Code.DPOP_TARGET, explanation)


def _require_fresh(claims: Claims, now: int) -> int:
    """Require an `iat` within a minute of this clock (4.3 rule 11)."""
    issued_at = require_numeric_date(claims, "iat", Code.DPOP_MALFORMED)
    if abs(now - issued_at) > PROOF_WINDOW:
        raise ProtocolViolation(
            Code.DPOP_ISSUED_AT, f"iat is {now - issued_at} seconds before this clock"
        )
    return issued_at


def _malformed(explanation: str) -> ProtocolViolation:
    return ProtocolViolation(Code.DPOP_MALFORMED, explanation)


def _coordinate(number: int) -> str:
    return encode_base64url(number.to_bytes(_FIELD_BYTES))
