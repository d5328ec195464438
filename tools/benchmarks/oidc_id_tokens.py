"""Accepting an RS256 ID token, against the signature check alone."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from pydantic import JsonValue

from fastapi_oidc.clock import Instant
from fastapi_oidc.protocol.id_token import Expected, accept_id_token
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet
from fastapi_oidc.protocol.jose.verify import verified_claims
from tools.benchmarks.rounds import Batch, repeated

ISSUER = "https://op.example.com"
NOW = int(time.time())
AT = Instant(NOW)
ALGORITHMS = frozenset({"RS256"})
EXPECTED = Expected(issuer=ISSUER, client_id="app", algorithm="RS256", nonce="nonce")
PROFILE: Mapping[str, JsonValue] = {
    "sub": "alice",
    "sid": "0d3f5ab0-6a0c-4f6e-9f7b-3a3c2c1f5c11",
    "auth_time": NOW,
    "name": "Alice Example",
    "given_name": "Alice",
    "family_name": "Example",
    "preferred_username": "alice",
    "email": "alice@example.com",
    "email_verified": True,
    "picture": "https://app.example.com/pictures/alice.png",
    "locale": "en",
    "roles": ["reader", "writer", "admin"],
}


def token_cases(token: str, key: RSAPrivateKey) -> dict[str, Batch]:
    public = key.public_key()
    signing_input, _, signature = token.rpartition(".")
    signed, octets = signing_input.encode(), base64.urlsafe_b64decode(signature + "==")
    keys = JsonWebKeySet.parse({"keys": [jwk_of(key)]})

    def bare() -> None:
        public.verify(octets, signed, PKCS1v15(), SHA256())

    def ours() -> None:
        claims = verified_claims(
            CompactJWS.parse(token), keys, algorithms=ALGORITHMS, client_secret=None
        )
        accept_id_token(claims, EXPECTED, AT)

    return {"bare cryptography verify": repeated(bare), "fastapi_oidc": repeated(ours)}


def a_signed_id_token() -> tuple[str, RSAPrivateKey]:
    key = generate_private_key(public_exponent=65537, key_size=2048)
    claims = {"iss": ISSUER, "aud": "app", "nonce": "nonce", "iat": NOW, "exp": NOW + 300}
    header = {"alg": "RS256", "typ": "JWT", "kid": "key-1"}
    signed = ".".join(
        base64url(json.dumps(part).encode()) for part in (header, {**claims, **PROFILE})
    )
    return f"{signed}.{base64url(key.sign(signed.encode(), PKCS1v15(), SHA256()))}", key


def jwk_of(key: RSAPrivateKey) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    modulus, exponent = numbers.n.to_bytes(256, "big"), numbers.e.to_bytes(3, "big")
    return {"kty": "RSA", "kid": "key-1", "n": base64url(modulus), "e": base64url(exponent)}


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
