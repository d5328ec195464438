"""Fresh key pairs, and signatures made by `cryptography` alone to hold the library against."""

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fastapi_oidc.protocol.encoding import JSON

Sign: TypeAlias = Callable[[bytes], bytes]
PrivateKey: TypeAlias = RSAPrivateKey | ec.EllipticCurvePrivateKey | Ed25519PrivateKey

_HASHES: Mapping[str, hashes.HashAlgorithm] = {
    size: getattr(hashes, f"SHA{size}")() for size in ("256", "384", "512")
}
CURVES: Mapping[str, ec.EllipticCurve] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
    "secp256k1": ec.SECP256K1(),
}


def rsa_key(name: str = "one", *, bits: int = 2048) -> RSAPrivateKey:
    """The RSA key of that name; another name is another key."""
    return _rsa_key(name, bits)


def ec_key(curve: str = "P-256", name: str = "one") -> ec.EllipticCurvePrivateKey:
    """The elliptic-curve key of that name."""
    return _ec_key(curve, name)


@cache
def ed25519_key() -> Ed25519PrivateKey:
    """The Ed25519 key."""
    return Ed25519PrivateKey.generate()


@cache
def _rsa_key(_name: str, bits: int) -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=bits)


@cache
def _ec_key(curve: str, _name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(CURVES[curve])


def base64url(octets: bytes) -> str:
    """RFC 7515 2, without the library's help."""
    return urlsafe_b64encode(octets).decode().rstrip("=")


def number(value: int, size: int | None = None) -> str:
    """An unsigned number in base64url (RFC 7518 2)."""
    return base64url(value.to_bytes(size or (value.bit_length() + 7) // 8))


def public_jwk(key: PrivateKey, **members: JSON) -> dict[str, JSON]:
    """The public JWK of `key` (RFC 7518 6.2.1 and 6.3.1, RFC 8037 2) with more members."""
    if isinstance(key, Ed25519PrivateKey):
        x = base64url(key.public_key().public_bytes_raw())
        return {"kty": "OKP", "crv": "Ed25519", "x": x, **members}
    if isinstance(key, RSAPrivateKey):
        public = key.public_key().public_numbers()
        return {"kty": "RSA", "n": number(public.n), "e": number(public.e), **members}
    point, size = key.public_key().public_numbers(), (key.curve.key_size + 7) // 8
    curve = next(name for name, curve in CURVES.items() if curve.name == key.curve.name)
    x, y = number(point.x, size), number(point.y, size)
    return {"kty": "EC", "crv": curve, "x": x, "y": y, **members}


def private_pem(key: PrivateKey, encryption: KeySerializationEncryption | None = None) -> str:
    """What a client signs with."""
    octets = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return octets.decode()


def public_pem(key: PrivateKey | Ed448PrivateKey) -> str:
    """What a client registers."""
    form = PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(Encoding.PEM, form).decode()


def rs(key: RSAPrivateKey, bits: str = "256") -> Sign:
    """RSASSA-PKCS1-v1_5."""
    return lambda message: key.sign(message, PKCS1v15(), _HASHES[bits])


def ps(key: RSAPrivateKey, bits: str = "256") -> Sign:
    """RSASSA-PSS with the salt length of RFC 7518 3.5."""
    chosen = _HASHES[bits]
    padding = PSS(mgf=MGF1(chosen), salt_length=chosen.digest_size)
    return lambda message: key.sign(message, padding, chosen)


def es(key: ec.EllipticCurvePrivateKey, bits: str = "256") -> Sign:
    """ECDSA with both numbers side by side (RFC 7518 3.4)."""
    size = (key.curve.key_size + 7) // 8

    def sign(message: bytes) -> bytes:
        r, s = decode_dss_signature(key.sign(message, ec.ECDSA(_HASHES[bits])))
        return r.to_bytes(size) + s.to_bytes(size)

    return sign


def hs(secret: str, bits: str = "256") -> Sign:
    """HMAC."""
    return lambda message: hmac.digest(secret.encode(), message, getattr(hashlib, f"sha{bits}"))


def compact(header: object, claims: object, sign: Sign) -> str:
    """A JWS in the compact form (RFC 7515 3.1)."""
    signing_input = f"{segment(header)}.{segment(claims)}"
    return f"{signing_input}.{base64url(sign(signing_input.encode()))}"


def segment(value: object) -> str:
    """`value` as one part of a JWS: octets as they are, anything else as JSON."""
    return base64url(value if isinstance(value, bytes) else json.dumps(value).encode())
