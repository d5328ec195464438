"""Signatures that others published: RFC 7515 appendix A, RFC 8037 appendix A, OIDC Core A.3."""

from __future__ import annotations

from base64 import urlsafe_b64decode

from fastapi_oidc.protocol.id_token import access_token_hash
from fastapi_oidc.protocol.jose.algorithms import ALGORITHMS
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKey, JsonWebKeySet
from fastapi_oidc.protocol.jose.verify import verified_claims

CLAIMS = (
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
)


def test_rfc_7515_a_1_hs256() -> None:
    secret = (
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
    )
    token = CompactJWS.parse(
        f"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{CLAIMS}"
        ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    )
    key = ALGORITHMS["HS256"].key(urlsafe_b64decode(secret + "=="))
    assert key.verify(token.signing_input, token.signature)


def test_rfc_7515_a_3_es256() -> None:
    jwk = {
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    }
    token = CompactJWS.parse(
        f"eyJhbGciOiJFUzI1NiJ9.{CLAIMS}"
        ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    )
    keys = JsonWebKeySet.parse({"keys": [jwk]})
    claims = verified_claims(token, keys, algorithms={"ES256"}, client_secret=None)
    assert claims == {"iss": "joe", "exp": 1300819380, "http://example.com/is_root": True}


def test_rfc_8037_a_4_eddsa() -> None:
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    token = CompactJWS.parse(
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
        ".hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
    )
    key = JsonWebKey.parse(jwk).verifiers["EdDSA"]
    assert token.payload == b"Example of Ed25519 signing"
    assert key.verify(token.signing_input, token.signature)


def test_core_a_3_at_hash() -> None:
    access_token = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y"
    assert access_token_hash(access_token, "RS256") == "77QmUPtjPfzWtF2AnpK9RQ"
