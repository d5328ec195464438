"""All five ways of Core 9 for a client to prove who it is, at code exchange, refresh and more."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fastapi_oidc.testing.keys import public_jwk
from tests.oidc.protocol.jose.keypairs import rsa_key
from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.relying_party import SECRET, relying_party

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

# RFC 6749 A.2 lets a client secret hold printable ASCII, which the current major insists on.
AWKWARD_SECRET = "s:e%c+r e/t&=?#" * 3
NON_ASCII_SECRET = "s:e%c+r e/t ü€漢" * 3


def pem(key: PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("method", "secret"),
    [
        ("client_secret_basic", SECRET),
        ("client_secret_basic", AWKWARD_SECRET),
        ("client_secret_post", SECRET),
        ("client_secret_post", AWKWARD_SECRET),
        ("client_secret_jwt", SECRET),
        ("none", None),
    ],
)
def test_with_a_secret_or_none(
    provider: RealProvider, browser: Browser, method: str, secret: str | None
) -> None:
    registration: dict[str, object] = {"token_endpoint_auth_method": method}
    settings: dict[str, object] = {"client_auth_method": method, "client_secret": secret}
    if secret is not None:
        registration["client_secret"] = secret
    with relying_party(provider, registration=registration, settings=settings) as rp:
        assert browser.login(rp).json()["sub"] == "alice"
        rp.time.ahead += 100
        assert browser.me(rp).json()["generation"] == 1


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("RS256", rsa_key()),
        ("PS256", rsa_key()),
        ("ES256", ec.generate_private_key(ec.SECP256R1())),
        ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
    ],
)
def test_with_a_private_key_of_every_kind(
    provider: RealProvider, browser: Browser, algorithm: str, key: PrivateKey
) -> None:
    settings: dict[str, object] = {
        "client_auth_method": "private_key_jwt",
        "client_private_key": pem(key),
        "client_assertion_algorithm": algorithm,
    }
    registration: dict[str, object] = {
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": algorithm,
        "jwks": {"keys": [public_jwk(key.public_key()) | {"use": "sig"}]},
    }
    with relying_party(provider, registration=registration, settings=settings) as rp:
        assert browser.login(rp).json()["sub"] == "alice"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_secret_that_is_not_ascii(
    older_provider: RealProvider, browser: Browser, method: str
) -> None:
    secret: dict[str, object] = {"client_secret": NON_ASCII_SECRET}
    registration = secret | {"token_endpoint_auth_method": method}
    settings = secret | {"client_auth_method": method}
    with relying_party(older_provider, registration=registration, settings=settings) as rp:
        assert browser.login(rp).json()["sub"] == "alice"
