"""The public half of a signing key, as its owner publishes it (RFC 7517, RFC 7518 6)."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.protocol.jose.keys import PublicKey

_CURVE_NAMES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}


def public_jwk(
    key: PublicKey, *, algorithm: str | None = None, key_id: str | None = None
) -> dict[str, str]:
    """The JWK of `key`, for signatures; `alg` and `kid` are left out when not given."""
    named = {"use": "sig", "alg": algorithm, "kid": key_id}
    return _material(key) | {name: value for name, value in named.items() if value is not None}


def _material(key: PublicKey) -> dict[str, str]:
    match key:
        case RSAPublicKey():
            rsa = key.public_numbers()
            return {"kty": "RSA", "n": _number(rsa.n), "e": _number(rsa.e)}
        case EllipticCurvePublicKey():
            point, size = key.public_numbers(), (key.curve.key_size + 7) // 8
            coordinates = {"x": _number(point.x, size), "y": _number(point.y, size)}
            return {"kty": "EC", "crv": _CURVE_NAMES[key.curve.name], **coordinates}
        case Ed25519PublicKey():
            x = base64url.encode(key.public_bytes_raw())
            return {"kty": "OKP", "crv": "Ed25519", "x": x}


def _number(value: int, size: int | None = None) -> str:
    return base64url.encode(value.to_bytes(size or (value.bit_length() + 7) // 8))
